"""The cost of a grant: compiling one for an agent with many resources, and checking one call against it."""

import time
from collections.abc import Callable

from figures import Figure, median

from bollard.host.agents.agent import Agent
from bollard.host.agents.policies import AccessPolicy, AgentPolicy, ResourceRule
from bollard.host.clock import SystemClock
from bollard.host.grants.check import Allowed, check
from bollard.host.grants.offer import Offer, OfferedTool
from bollard.host.grants.revocation import NOTHING_REVOKED
from bollard.host.runs.creation import RunMaker
from bollard.host.runs.event import NewEvent
from bollard.host.runs.ids import IdMaker
from bollard.host.scope import Scope

__all__ = ["grant_figures"]

RESOURCES = 50
TIMES = 2_000


def grant_figures() -> list[Figure]:
    """Both p50, in this process, for a run with all features of a conversation."""
    tools = [f"tool:bench/{number}" for number in range(RESOURCES)]
    offer = Offer.of(
        *(OfferedTool(tool_name=name, tool_type="builtin", risk="low", definition_sha256="0" * 64) for name in tools)
    )
    agent = Agent(
        agent_id="bench",
        runner_id="plugin:bench/bench/default",
        runner_name="default",
        plugin="bench/bench",
        label={"en_US": "Bench"},
        permissions=frozenset({"tools.detail", "tools.call", "history.page"}),
        policy=AgentPolicy(
            access=AccessPolicy(
                permissions={"tools": ("detail", "call"), "history": ("page",)},
                resources={"tools": ResourceRule(add=tuple(tools))},
            )
        ),
    )
    event = NewEvent(
        source="bench",
        source_id="1",
        event_type="message.received",
        text="hi",
        scope=Scope(workspace="default", conversation="room", actor_type="user", actor_id="u1"),
    )
    maker = RunMaker(SystemClock(), IdMaker(), lambda _: offer)
    grant = maker.grant(event, agent, "run_bench")
    if check(grant, NOTHING_REVOKED, "tools.call", tools[-1]) != Allowed():
        raise RuntimeError("the grant does not hold what it should")
    return [
        _figure("grant compile p50, 50 resources", lambda: maker.grant(event, agent, "run_bench"), must=100, aim=50),
        _figure("grant check p50", lambda: check(grant, NOTHING_REVOKED, "tools.call", tools[-1]), must=10, aim=3),
    ]


def _figure(name: str, work: Callable[[], object], *, must: float, aim: float) -> Figure:
    taken: list[float] = []
    for _ in range(TIMES):
        started = time.perf_counter_ns()
        work()
        taken.append((time.perf_counter_ns() - started) / 1000)
    return Figure(figure=name, value=median(taken), unit="µs", better="lower", must=must, aim=aim)

"""`resolve` predicts the fate of an event that is posted right after it: agent, decision and refusal. Over random
agents and bindings."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore

from bollard.host.agents.admission import Interrupt, Queue, Reject, Start, Steer
from bollard.host.agents.binding import Binding
from bollard.host.agents.lanes import lane_of
from bollard.host.agents.policies import AgentPolicy, BudgetPolicy, ConcurrencyPolicy, GatePolicy
from bollard.host.agents.routing import BindingRegistry
from bollard.host.errors import Conflict, HostError, NotFound
from bollard.host.events.acceptance import Preview
from bollard.host.http.resources.events import preview_body
from bollard.host.runs.backlog import QueueLimits
from bollard.protocol import JsonObject

AGENTS, NAMES, PEOPLE = ("a", "b", "gone"), ("x", "y"), ("ann", "ann", "bob", None)
seldom = st.sampled_from((None, None, 1, 3))
names = st.sets(st.sampled_from(NAMES), min_size=1).map(sorted)
agents = st.builds(
    lambda mode, steer_from, steering, talk, rate, of_day, at_once: {
        "capabilities": frozenset({"steering"} if steering else ()),
        "policy": AgentPolicy(
            concurrency=ConcurrencyPolicy(mode=mode, steer_from=steer_from),
            gate=GatePolicy(talk=talk, actors=("user:ann",) if talk == "listed" else (), messages_per_minute=rate),
            budget=BudgetPolicy(runs_per_day=of_day, runs_at_once=at_once),
        ),
    },
    mode=st.sampled_from(("steer", "steer", "queue", "interrupt", "reject", "parallel")),
    steer_from=st.sampled_from(("same_actor", "conversation")),
    steering=st.sampled_from((True, True, False)),
    talk=st.sampled_from(("everyone", "everyone", "listed")),
    rate=seldom,
    of_day=seldom,
    at_once=seldom,
)
bindings = st.fixed_dictionaries(
    {
        "agent_id": st.sampled_from(("a", "b", "b", "gone")),
        "scope": st.fixed_dictionaries(
            {},
            optional={
                "bot": st.just("x"),
                "channel": st.sampled_from(NAMES),
                "conversation": st.sampled_from(NAMES),
                "actor": st.sampled_from(("user:ann", "user:bob")),
            },
        ),
        "filters": st.fixed_dictionaries({}, optional={"data.k": names, "source_event_type": names}).map(
            lambda found: [{"field": field, "values": values} for field, values in found.items()]
        ),
        "priority": st.sampled_from((0, 0, 1)),
    }
)
events = st.fixed_dictionaries(
    {
        "actor": st.sampled_from(PEOPLE),
        "source": st.sampled_from(NAMES),
        "conversation": st.sampled_from(("x", "x", "y", None)),
        "bot": st.sampled_from((None, None, "x")),
        "source_event_type": st.sampled_from((None, *NAMES)),
        "data": st.sampled_from(({}, {"k": "x"}, {"k": "y"})),
        "event_type": st.sampled_from(("message.received", "message.received", "reaction.added")),
        "caller": st.sampled_from(("key:1", "key:1", "key:2", None)),
    }
)
shares = st.builds(
    QueueLimits,
    conversation=st.sampled_from((1, 2, 9)),
    caller=st.sampled_from((1, 2, 9)),
    agent=st.sampled_from((2, 9)),
)
steps = st.lists(
    st.tuples(events, st.sampled_from(("nothing", "nothing", "answer", "minute"))), min_size=4, max_size=14
)


def saved(bodies: list[JsonObject], book: BindingRegistry) -> None:
    """Clashing bindings are refused, in any order."""
    for number, body in enumerate(bodies):
        binding = Binding.read({"binding_id": f"b{number}", **body})
        before = book.all()
        try:
            book.put(binding)
        except Conflict as error:
            assert book.all() == before
            other_way = BindingRegistry()
            other_way.put(binding)
            (other,) = (each for each in before if each.binding_id == error.details["other"])
            with pytest.raises(Conflict):
                other_way.put(other)


class Street:
    """A host whose events find their agents by bindings; its runs go on until they are answered."""

    def __init__(self, room: Any) -> None:
        self.room = room
        self.stage = room.stage

    def running(self) -> list[str]:
        return sorted(self.stage.dispatcher.live)

    async def settled(self, event: Any, preview: Preview) -> None:
        """Earlier events of the same conversation have their place."""
        if (agent := preview.resolution.agent) is not None:
            lane = lane_of(agent.agent_id, event.scope)
            if lane is not None:
                await self.stage.intake.redispatch_queue.settled(lane)
        await self.room.until(lambda: self.has_begun(event))

    def has_begun(self, event: Any) -> bool:
        """Whether the run that the event would steer executes. A run whose turn has just come does not yet."""
        decision = self.stage.intake.preview(event).decision
        return not isinstance(decision, Steer) or decision.run_id in self.stage.dispatcher.live

    async def post(self, event: Any) -> tuple[str | None, Any]:
        """Its refusal, or the accepted event."""
        try:
            return None, await self.stage.intake.accept(event)
        except HostError as error:
            return error.code, error

    async def check(self, event: Any) -> None:
        """Post an event, and compare the result with its preview."""
        intake = self.stage.intake
        await self.settled(event, intake.preview(event))
        first, preview = (intake.preview(event) for _ in range(2))
        assert preview_body(first, "en_US") == preview_body(preview, "en_US"), "asking costs nothing"
        live = self.stage.dispatcher.live
        before = [run_id for run_id in self.running() if not live[run_id].ending and live[run_id].state.cancel is None]
        refused, outcome = await self.post(event)
        found = preview.resolution
        if found.agent is None:
            assert isinstance(outcome, NotFound)
            return
        if preview.refused is not None:
            assert refused == preview.refused.code
            assert outcome.details.get("share") == preview.refused.details.get("share")
        elif isinstance(preview.decision, Reject):
            assert refused == "conflict"
        elif isinstance(preview.decision, Steer):
            assert (refused, outcome.steered, outcome.run_id) == (None, True, preview.decision.run_id)
            assert self.stage.row(outcome.run_id).agent_id == found.agent.agent_id
        else:
            assert refused is None, outcome
            assert not outcome.steered
            row = self.stage.row(outcome.run_id)
            assert (row.agent_id, row.binding_id) == (found.agent.agent_id, found.binding_id)
            assert (row.bot, row.conversation, row.thread) == (
                event.scope.bot,
                event.scope.conversation,
                event.scope.thread,
            )
            assert (row.run_id in self.running()) == isinstance(preview.decision, Start)
            if isinstance(preview.decision, Interrupt):
                await self.interrupted(preview.decision.run_ids)
            else:
                assert isinstance(preview.decision, (Start, Queue))
                assert set(before) <= set(self.running()), "nobody else was touched"

    async def interrupted(self, run_ids: tuple[str, ...]) -> None:
        live = self.stage.dispatcher.live
        await self.room.until(
            lambda: all(run_id not in live or live[run_id].state.cancel is not None for run_id in run_ids)
        )
        for run_id in run_ids:
            await self.end(run_id, self.room.give_up)

    async def end(self, run_id: str, how: Any) -> None:
        """At the worker, or before it gets there: one that was stopped in time never does."""
        live, runs = self.stage.dispatcher.live, self.room.worker.runs
        await self.room.until(lambda: run_id not in live or any(run.run_id == run_id for run in runs))
        if run_id in live:
            await how(next(run for run in runs if run.run_id == run_id))
            await self.stage.ended(run_id)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(policies=st.tuples(agents, agents), bodies=st.lists(bindings, max_size=6), limits=shares, plan=steps)
async def test_the_preview_of_an_event_matches_its_dispatch(
    rooms: Any, clock: ManualClock, policies: Any, bodies: list[JsonObject], limits: QueueLimits, plan: Any
) -> None:
    street = Street(await rooms(MemoryStore(clock), queue=limits))
    for agent_id, more in zip(AGENTS, policies, strict=False):
        street.stage.agent(agent_id=agent_id, runner_id=f"plugin:acme/parrot/{agent_id}", **more)
    saved([{"agent_id": "a"}, *bodies], street.stage.bindings)  # the first takes what no other does
    for fields, then in plan:
        await street.check(street.room.event("hello", **fields))
        if then == "minute":
            clock.advance(60)
        elif then == "answer" and (running := street.running()):
            await street.end(running[0], street.room.answer)


async def test_a_draining_host_says_so_in_the_preview_of_an_event(rooms: Any, clock: ManualClock) -> None:
    street = Street(await rooms(MemoryStore(clock)))
    saved([{"agent_id": "parrot"}], street.stage.bindings)
    street.stage.dispatcher.draining = True
    event = street.room.event("hello")
    preview = street.stage.intake.preview(event)
    assert preview.refused is not None
    assert preview.refused.code == "draining"
    assert (await street.post(event))[0] == "draining"

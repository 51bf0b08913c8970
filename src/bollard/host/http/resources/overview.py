"""`/overview`: the last hours of a workspace in numbers, what waits for people, and which parts need attention."""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.approvals.questions import QuestionRegistry
from bollard.host.clock import Clock
from bollard.host.delivery.outbox import Delivery
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.openapi.schemas import ANY, FLAG, NUMBER, TEXT, TIME, array_of, choice, fields, map_of, maybe
from bollard.host.http.operations import QueryField
from bollard.host.http.queries import whole_number
from bollard.host.http.resources.declaration import DeclaredResource, answer_body, operation, seconds
from bollard.host.http.resources.health import Readiness
from bollard.host.identity.audience import Audience
from bollard.host.identity.caller import Caller
from bollard.host.limits import DISK_LOW_BYTES, OVERVIEW_HOURS, OVERVIEW_WAITING
from bollard.host.mcp.source import McpSource
from bollard.host.plugins.placement import PoolPlacement
from bollard.host.runs.tallies import FAILED, AgentTally, HourTally, RunTallies, by_agent, percentile
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, JsonValue

_DAY_HOURS: Final = 24
_OUTCOMES: Final = ("completed", "failed", "timeout", "cancelled", "active")
_KINDS: Final = ("plugin", "mcp_server", "channel", "host")
_LATENCY: Final = fields(p50_ms=maybe(NUMBER), p95_ms=maybe(NUMBER), runs=NUMBER)
_DEGRADED: Final = "the last message did not arrive"
_NO_LATENCY: Final[JsonObject] = {"p50_ms": None, "p95_ms": None, "runs": 0}
_PROBLEM: Final = fields(kind=choice(*_KINDS), id=maybe(TEXT), reason=TEXT, message=TEXT, details=ANY)
_OVERVIEW: Final = answer_body(
    "Overview",
    {
        "since": 1794650400.0,
        "until": 1794735485.0,
        "complete": True,
        "hidden_agents": 0,
        "hours": [{"at": 1794650400.0, **dict.fromkeys(_OUTCOMES, 0), "first_delta": _NO_LATENCY}],
        "first_delta": {"p50_ms": 240, "p95_ms": 900, "runs": 12},
        "failures": [{"code": "runner.failed", "count": 2, "last_run_id": "run_01", "last_at": 1794735485.0}],
        "agents": [{"agent_id": "parrot", "runs": 12, "failed": 2, "tokens": 1400, "cost": {"USD": 0.02}}],
        "waiting": {"approvals": 1, "questions": 0},
        "problems": [
            {
                "kind": "plugin",
                "id": "acme/parrot",
                "reason": "plugin_quarantined",
                "message": "5 workers crashed within 60 s",
                "details": {},
            }
        ],
    },
    since=TIME,
    until=TIME,
    complete=FLAG,
    hours=array_of(fields(at=TIME, first_delta=_LATENCY, **dict.fromkeys(_OUTCOMES, NUMBER))),
    first_delta=_LATENCY,
    failures=array_of(fields(code=TEXT, count=NUMBER, last_run_id=TEXT, last_at=TIME)),
    agents=array_of(fields(agent_id=TEXT, runs=NUMBER, failed=NUMBER, tokens=NUMBER, cost=map_of({"type": "number"}))),
    waiting=fields(approvals=maybe(NUMBER), questions=NUMBER),
    problems=array_of(_PROBLEM),
)


class PartHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a host that know whether they work."""

    readiness: Readiness
    placements: Callable[[str], Sequence[PoolPlacement]]
    mcp: McpSource
    delivery: Delivery
    data: Path

    async def problems(self, caller: Caller) -> list[JsonObject]:
        """The parts that need attention, of those that the caller may read about."""
        reasons = await self.readiness.reasons()
        if caller.may("metrics.read"):
            reasons += self.readiness.warnings()
        found = [_problem("host", None, each.code, each.message, each.problem_details) for each in reasons]
        if caller.may("metrics.read"):
            found += await asyncio.to_thread(self._disk)
        if caller.may("plugins.read"):
            found += self._plugins(caller.workspace)
        if caller.may("mcp.read"):
            found += self._servers(caller.workspace)
        if caller.may("channels.read"):
            found += [
                _problem("channel", each, "channel_degraded", _DEGRADED, {"problem_type": "channel.degraded"})
                for each in self.delivery.degraded(caller.workspace)
            ]
        return found

    def _plugins(self, workspace: str) -> list[JsonObject]:
        return [
            _problem("plugin", each.plugin_id, f"plugin_{each.pool.status}", problem.sentence, dict(problem.details))
            for each in self.placements(workspace)
            if (problem := each.pool.problem) is not None
        ]

    def _servers(self, workspace: str) -> list[JsonObject]:
        return [
            _problem(
                "mcp_server",
                each.server.server_id,
                f"mcp_{each.status}",
                each.problem.sentence,
                {**each.problem.details},
            )
            for each in self.mcp.connections(workspace)
            if each.status in ("waiting", "needs_login")
        ]

    def _disk(self) -> list[JsonObject]:
        free = shutil.disk_usage(self.data).free
        if free >= DISK_LOW_BYTES:
            return []
        details: JsonObject = {"problem_type": "host.disk_low", "free_bytes": free}
        return [_problem("host", None, "disk_low", "the data directory has little space left", details)]


def _problem(
    kind: str, part_id: str | None, reason: str, message: str, details: dict[str, JsonValue] | None = None
) -> JsonObject:
    return {"kind": kind, "id": part_id, "reason": reason, "message": message, "details": details or {}}


class Overview(DeclaredResource):
    """Shows the last hours of a workspace."""

    tag = "host"

    def __init__(
        self, *, store: Store, audience: Audience, questions: QuestionRegistry, health: PartHealth, clock: Clock
    ) -> None:
        self._store = store
        self._audience = audience
        self._questions = questions
        self._health = health
        self._clock = clock
        self._tallies = RunTallies(store)

    @operation(
        "GET /api/v1/overview",
        name="getOverview",
        summary="The last hours in numbers: runs, failures, latency, cost, waiting people, and parts with problems.",
        description="A run counts in the hour of its creation. The numbers cover the agents whose runs the caller may "
        "all see; `hidden_agents` counts the others. Latencies are of a sample of each hour. One request counts a "
        "limited number of runs: if `complete` is false, older hours are missing, and the next request has them.",
        right="runs.read",
        query=(
            QueryField(
                name="hours",
                summary="How many hours, up to now.",
                kind="number",
                least=1,
                most=OVERVIEW_HOURS,
                default=_DAY_HOURS,
                example=_DAY_HOURS,
            ),
        ),
        answers={200: _OVERVIEW.answer("The overview.")},
    )
    async def get(self, request: Request) -> Response:
        caller, now_ms = caller_of(request), self._clock.now_ms()
        count = whole_number(request, "hours", "send a number of hours") or _DAY_HOURS
        hours, complete = await asyncio.to_thread(self._tallies.hours, caller.workspace, now_ms, count)
        agents = by_agent(hours)
        seen = frozenset(agent_id for agent_id in agents if self._audience.sees_agent(caller, agent_id))
        total = AgentTally()
        for agent_id in seen:
            total.add(agents[agent_id])
        return JsonAnswer(
            {
                "since": seconds(hours[0].start_ms),
                "until": seconds(now_ms),
                "complete": complete,
                "hidden_agents": len(agents) - len(seen),
                "hours": [_hour(hour, seen) for hour in hours],
                "first_delta": _latency(total),
                "failures": _failures(total),
                "agents": [_agent(agent_id, agents[agent_id]) for agent_id in sorted(seen)],
                "waiting": {
                    "approvals": await self._waiting_approvals(caller),
                    "questions": await self._waiting_questions(caller),
                },
                "problems": [*await self._health.problems(caller)],
            }
        )

    async def _waiting_approvals(self, caller: Caller) -> int | None:
        """At most `OVERVIEW_WAITING`; `None` for callers without the right to read approvals."""
        if not caller.may("approvals.read"):
            return None
        rows = await asyncio.to_thread(self._store.approvals, caller.workspace, "requested", None, OVERVIEW_WAITING)
        return sum([await self._audience.sees_run(caller, row.run_id) for row in rows])

    async def _waiting_questions(self, caller: Caller) -> int:
        asked = self._questions.in_workspace(caller.workspace)[:OVERVIEW_WAITING]
        return sum([await self._audience.sees_run(caller, each.run_id) for each in asked])


def _hour(hour: HourTally, seen: frozenset[str]) -> JsonObject:
    total = hour.total(seen.__contains__)
    counts: JsonObject = {outcome: total.statuses[outcome] for outcome in _OUTCOMES}
    return {"at": seconds(hour.start_ms), **counts, "first_delta": _latency(total)}


def _latency(total: AgentTally) -> JsonObject:
    waited = total.first_delta_ms
    return {"p50_ms": percentile(waited, 0.5), "p95_ms": percentile(waited, 0.95), "runs": len(waited)}


def _failures(total: AgentTally) -> list[JsonValue]:
    """The most frequent first."""
    ranked = sorted(total.failures.items(), key=lambda item: (-item[1].count, item[0]))
    return [
        {"code": code, "count": each.count, "last_run_id": each.last_run_id, "last_at": seconds(each.last_ms)}
        for code, each in ranked
    ]


def _agent(agent_id: str, tally: AgentTally) -> JsonObject:
    return {
        "agent_id": agent_id,
        "runs": tally.statuses.total(),
        "failed": sum(tally.statuses[status] for status in FAILED),
        "tokens": tally.tokens,
        "cost": {currency: round(spent, 10) for currency, spent in sorted(tally.cost.items())},
    }

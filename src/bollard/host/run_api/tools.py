"""`tools.detail`: how the tools of a run are called, read from the graph that its calls are resolved in."""

from collections.abc import Generator
from contextlib import contextmanager

from bollard.host.actions.call import Call, Outcome
from bollard.host.actions.call_records import LiveLedger
from bollard.host.actions.executor import Executor
from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.graph import DETAIL, CapabilityGraph
from bollard.host.capabilities.sources import Progress
from bollard.host.run_api.refusal import ApiRefused, check_key, protocol_code
from bollard.host.runs.live_run import LiveRun
from bollard.protocol import (
    JsonObject,
    PlatformOutcome,
    PlatformRequest,
    ToolDetail,
    ToolDetailList,
    ToolResult,
    ToolsCall,
    ToolsDetail,
    limits,
)


class Tools:
    """Describes tools to runs. That the grant holds each was checked before."""

    async def detail(self, run: LiveRun, params: ToolsDetail) -> ToolDetailList:
        graph = run.session.graph
        found = [graph.require(name, DETAIL) for name in params.names]
        if sum(len(each.json) for each in found) > limits.RESULT_BYTES:
            raise ApiRefused(
                "payload_too_large",
                f"these definitions are together larger than {limits.RESULT_BYTES} bytes: ask for fewer at once",
            )
        return ToolDetailList(tools=tuple(_detail(graph, each) for each in found))


def _detail(graph: CapabilityGraph, capability: Capability) -> ToolDetail:
    return ToolDetail(
        tool_name=graph.name_of(capability.id) or capability.id,
        description=capability.description,
        input_schema=capability.input_schema,
        output_schema=capability.output_schema,
        risk=capability.risk,
        definition_sha256=capability.definition_sha256,
    )


# `tools.call`: what a runner asks to be done goes to the executor, in the name of its run.


class ToolCalls:
    """One per host."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._known: set[str] = set()
        self._heard: dict[tuple[str, str], Progress] = {}
        """Who hears how far a call is, by its run and its id."""

    async def call(self, run: LiveRun, params: ToolsCall) -> ToolResult:
        check_key(params.call_id or "", "call_id")
        call = Call(name=params.name, arguments=params.parameters, call_id=params.call_id)
        return ToolResult.from_wire((await self.carry_out(run, call)).result())

    async def carry_out(self, run: LiveRun, call: Call) -> Outcome:
        """The outcome of a call that was done. Raises `ApiRefused` for one that was not, or that nobody knows of."""
        self._watch(run)
        progress = self._heard.get((run.facts.run_id, call.call_id or ""))
        outcome = await self._executor.execute(run.session, call, LiveLedger(run), progress=progress)
        if outcome.status != "completed":
            raise refused(outcome)
        return outcome

    @contextmanager
    def heard(self, run: LiveRun, call_id: str, progress: Progress) -> Generator[None]:
        """Meanwhile, how far this call of the run is, is told here."""
        key = (run.facts.run_id, call_id)
        self._heard[key] = progress
        try:
            yield
        finally:
            self._heard.pop(key, None)

    def _watch(self, run: LiveRun) -> None:
        """What the executor knows of a run is forgotten with it."""
        run_id = run.facts.run_id
        if run_id not in self._known:
            self._known.add(run_id)
            run.done.add_done_callback(lambda _: self._forget(run_id))

    def _forget(self, run_id: str) -> None:
        self._known.discard(run_id)
        self._executor.forget(run_id)


def refused(outcome: Outcome) -> ApiRefused:
    """An outcome that is no answer, as a runner gets it."""
    details: JsonObject = {"call_id": outcome.call_id}
    return ApiRefused(
        protocol_code(outcome.code or ""), outcome.message or "", retryable=outcome.retryable, details=details
    )


# `platform.request`: an action on the platform that an event came from, or on another channel of the workspace. It is
# a capability like any other, so it goes to the executor.


class PlatformCalls:
    """One per host."""

    def __init__(self, calls: ToolCalls) -> None:
        self._calls = calls

    async def request(self, run: LiveRun, params: PlatformRequest) -> PlatformOutcome:
        """What came of it, when somebody has allowed it and it was done."""
        capability_id, arguments = _meant(run, params)
        outcome = await self._calls.carry_out(run, Call(name=capability_id, arguments=arguments))
        return PlatformOutcome(call_id=outcome.call_id, outcome=outcome.status, result=outcome.structured)


def _meant(run: LiveRun, params: PlatformRequest) -> tuple[str, JsonObject]:
    """The capability and its arguments. Where no target is named, it is the one that answers go to."""
    answers = run.facts.deliver_to
    target = params.target or {}
    channel = target.get("channel", None if answers is None else answers.channel)
    where = target.get("target")
    if where is None and answers is not None and channel == answers.channel:
        where = answers.target
    if not isinstance(channel, str) or not isinstance(where, str):
        raise ApiRefused(
            "invalid_argument",
            "target names no place: the event came through no channel that could be meant",
            details={"field": "target"},
        )
    return f"channel:{channel}/{params.action}", {**(params.payload or {}), "target": where}

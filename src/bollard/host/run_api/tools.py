"""`tools.detail`, `tools.call` and `platform.request`. Calls go to the executor in the name of the run."""

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
    """Describes tools from the graph of the run. The gate checked the grant."""

    async def detail(self, run: LiveRun, params: ToolsDetail) -> ToolDetailList:
        graph = run.session.graph
        found = [graph.require(name, DETAIL) for name in params.names]
        if sum(len(each.json) for each in found) > limits.RESULT_BYTES:
            raise ApiRefused(
                "payload_too_large",
                f"these definitions together exceed {limits.RESULT_BYTES} bytes: request fewer at once",
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


class ToolCalls:
    """The action `tools.call`."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._watched: set[str] = set()
        """Runs whose end is watched."""
        self._listeners: dict[tuple[str, str], Progress] = {}
        """Progress listeners by run and call id."""

    async def call(self, run: LiveRun, params: ToolsCall) -> ToolResult:
        check_key(params.call_id or "", "call_id")
        call = Call(name=params.name, arguments=params.parameters, call_id=params.call_id)
        return ToolResult.from_wire((await self.carry_out(run, call)).result())

    async def carry_out(self, run: LiveRun, call: Call) -> Outcome:
        """Execute a call. Raises `ApiRefused` unless it completed."""
        self._watch(run)
        progress = self._listeners.get((run.facts.run_id, call.call_id or ""))
        outcome = await self._executor.execute(run.session, call, LiveLedger(run), progress=progress)
        if outcome.status != "completed":
            raise refused(outcome)
        return outcome

    @contextmanager
    def heard(self, run: LiveRun, call_id: str, progress: Progress) -> Generator[None]:
        """Report the progress of this call to `progress` for the duration of the block."""
        key = (run.facts.run_id, call_id)
        self._listeners[key] = progress
        try:
            yield
        finally:
            self._listeners.pop(key, None)

    def _watch(self, run: LiveRun) -> None:
        """Make the executor forget the run when it ends."""
        run_id = run.facts.run_id
        if run_id not in self._watched:
            self._watched.add(run_id)
            run.done.add_done_callback(lambda _: self._forget(run_id))

    def _forget(self, run_id: str) -> None:
        self._watched.discard(run_id)
        self._executor.forget(run_id)


def refused(outcome: Outcome) -> ApiRefused:
    """The refusal for an outcome without a result."""
    details: JsonObject = {"call_id": outcome.call_id}
    return ApiRefused(
        protocol_code(outcome.code or ""), outcome.message or "", retryable=outcome.retryable, details=details
    )


class PlatformCalls:
    """The action `platform.request`: an action on the channel of the event, or on another channel of the workspace."""

    def __init__(self, calls: ToolCalls) -> None:
        self._calls = calls

    async def request(self, run: LiveRun, params: PlatformRequest) -> PlatformOutcome:
        """Execute the action, after an approval if one is required."""
        capability_id, arguments = _capability_call(run, params)
        outcome = await self._calls.carry_out(run, Call(name=capability_id, arguments=arguments))
        return PlatformOutcome(call_id=outcome.call_id, outcome=outcome.status, result=outcome.structured)


def _capability_call(run: LiveRun, params: PlatformRequest) -> tuple[str, JsonObject]:
    """The capability and its arguments. The default target is the delivery target of the run."""
    default = run.facts.deliver_to
    target = params.target or {}
    channel = target.get("channel", None if default is None else default.channel)
    recipient = target.get("target")
    if recipient is None and default is not None and channel == default.channel:
        recipient = default.target
    if not isinstance(channel, str):
        raise ApiRefused(
            "invalid_argument",
            "target: names no channel, and the run has no delivery target",
            details={"field": "target"},
        )
    # An action such as `user.info` needs no target: the schema of the action decides.
    arguments = params.payload or {}
    return f"channel:{channel}/{params.action}", arguments if recipient is None else {**arguments, "target": recipient}

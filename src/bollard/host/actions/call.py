"""A call, its outcome as it is recorded, and the registry of calls, which executes each call id once."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol, cast

import msgspec

from bollard.host.approvals.approval import Permission, Proposal
from bollard.host.capabilities.capability import Capability, Flow
from bollard.host.capabilities.graph import CALL, CapabilityGraph
from bollard.host.capabilities.sources import Adapter, CallResult
from bollard.host.errors import ApprovalDenied, BudgetExceeded, HostError, InvalidRequest
from bollard.host.grants.session import RunSession
from bollard.host.limits import ACTION_OUTCOMES_KEPT, ACTIONS_PER_RUN
from bollard.host.log.records import DeliverTo
from bollard.host.store.action_rows import ToolCallRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject


class Ledger(Protocol):
    """The records of one run's calls, and the state of the run."""

    @property
    def live(self) -> bool:
        """Whether the run is live; false for a detached call."""
        ...

    @property
    def fresh(self) -> bool:
        """Whether this process has recorded all calls of the run."""
        ...

    @property
    def flow(self) -> Flow:
        """The data flow of the run so far."""
        ...

    def touch(self, flow: Flow) -> None:
        """Add to the flow. It never shrinks."""
        ...

    @property
    def answers(self) -> DeliverTo | None:
        """The delivery target of the run's answers. A message there does not send data out."""
        ...

    @property
    def left_s(self) -> float:
        """The remaining time of the run."""
        ...

    def check(self, capability: Capability) -> None:
        """Raises if the call is no longer allowed: after a revocation, a cancellation or the end of the run."""
        ...

    async def write(self, kind: str, data: JsonObject) -> None:
        """Write a record; it is on disk on return. Raises `AuditUnavailable` if that takes too long, and `NotFound` if
        the run accepts no records."""
        ...

    def note(self, kind: str, data: JsonObject) -> None:
        """Write a record without waiting."""
        ...


class Adapters(Protocol):
    """The adapters of the capabilities that are offered now."""

    def adapter(self, workspace: str, capability_id: str) -> Adapter | None: ...

    def stands(self, workspace: str, granted: Capability) -> bool:
        """Whether the capability is offered with the granted definition."""
        ...


class Approver(Protocol):
    """Requests approvals."""

    async def ask(self, session: RunSession, proposal: Proposal) -> Permission:
        """Wait for the decision. Raises `ApprovalDenied`, `ApprovalExpired` or `ApprovalRequired`."""
        ...


class NoApprover:
    """Denies every call: the host has no approvals."""

    async def ask(self, session: RunSession, proposal: Proposal) -> Permission:
        del session
        raise ApprovalDenied(
            f"{proposal.name} needs approval, and this host has no approvers",
            reason="no_approvers_on_host",
            hint="name the approvers in the agent's policy",
            tool=proposal.name,
        )


Status = Literal["completed", "failed", "rejected", "unknown"]
"""`failed`: certainly without effect. `rejected`: not begun. `unknown`: begun, and its effect is not known."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a run requests."""

    name: str
    """A short name of the run's graph, or an id."""
    arguments: JsonObject
    call_id: str | None = None
    """The caller's id for the call; the host makes one if it is absent."""
    explanation: str | None = None
    """The agent's explanation."""
    target: str | None = None
    """The target, if the arguments do not name it."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a call. A repeat of the call returns the same."""

    call_id: str
    capability: str
    status: Status
    content: tuple[dict[str, Any], ...] = ()
    structured: Any = None
    is_error: bool = False
    """Whether the tool reports an error as its result."""
    artifact_refs: tuple[dict[str, Any], ...] = ()
    code: str | None = None
    message: str | None = None
    details: Mapping[str, Any] = {}
    """The reason of the error and its values, by which a translation is found."""
    retryable: bool = False
    duration_ms: float = 0.0
    result_sha256: str | None = None
    size: int = 0
    flow: int = 0
    """The data flow of the run after the call, as bits."""

    def result(self) -> JsonObject:
        """As `ToolResult` of the protocol."""
        return {
            "call_id": self.call_id,
            "content": [*self.content],
            "structured": self.structured,
            "is_error": self.is_error,
            "artifact_refs": [*self.artifact_refs],
            "duration_ms": self.duration_ms,
        }

    def data(self) -> JsonObject:
        """The data of the record that ends the call. Its type carries the status."""
        data = cast("JsonObject", msgspec.to_builtins(self))
        del data["status"]
        return data


_read: Final = msgspec.json.Decoder(dict[str, Any]).decode


def outcome_of(row: ToolCallRow) -> Outcome:
    """The recorded outcome of a call; `unknown` if its end was not recorded."""
    if row.status == "started" or row.result is None:
        return Outcome(
            call_id=row.call_id,
            capability=row.capability,
            status="unknown",
            code="outcome_unknown",
            message="the call was begun, and its outcome is not known",
            flow=row.flow,
        )
    return msgspec.convert({**_read(row.result), "status": row.status}, Outcome)


def refused_outcome(call_id: str, capability: str, status: Status, error: HostError, **more: Any) -> Outcome:
    return Outcome(
        call_id=call_id,
        capability=capability,
        status=status,
        code=error.code,
        message=error.message,
        details=error.details,
        retryable=error.retryable,
        **more,
    )


def returned_outcome(call_id: str, capability: str, returned: CallResult, **more: Any) -> Outcome:
    return Outcome(
        call_id=call_id,
        capability=capability,
        status="completed",
        content=tuple(returned.content),
        structured=returned.structured,
        is_error=returned.is_error,
        artifact_refs=tuple(returned.artifact_refs),
        **more,
    )


class CallsOfRun:
    """The calls of one run that this process knows. Each id is executed once; a repeat returns the outcome."""

    def __init__(self, run_id: str, find: Callable[[str, str], ToolCallRow | None]) -> None:
        self._run_id = run_id
        self._find = find
        self._made: dict[str, tuple[str, str]] = {}
        """By call id, the capability and the digest of the arguments."""
        self._open: dict[str, asyncio.Future[Outcome]] = {}
        self._ended: OrderedDict[str, Outcome] = OrderedDict()
        self._last_number = 0

    def new_id(self) -> str:
        while (call_id := f"call_{self._last_number + 1}") in self._made:
            self._last_number += 1
        return call_id

    def remember(self, row: ToolCallRow) -> None:
        """Add a call of an earlier process. A repeatable call without a known outcome may be made again."""
        if row.status not in ("started", "unknown") or row.effects == "at_most_once":
            self._made[row.call_id] = (row.capability, row.arguments_sha256)

    async def enter(self, call_id: str, capability: str, arguments_sha256: str) -> Outcome | None:
        """The outcome of a call that was made before; waits if it is in progress. Enters a new call and returns
        nothing."""
        known = self._made.get(call_id)
        if known is None:
            if len(self._made) >= ACTIONS_PER_RUN:
                raise BudgetExceeded(
                    f"a run may make at most {ACTIONS_PER_RUN} calls",
                    reason="calls_per_run",
                    hint="end the run",
                    most=ACTIONS_PER_RUN,
                )
            self._made[call_id] = (capability, arguments_sha256)
            self._open[call_id] = asyncio.get_running_loop().create_future()
            return None
        if known != (capability, arguments_sha256):
            same_tool = known[0] == capability
            other = "with other arguments" if same_tool else "of another tool"
            raise InvalidRequest(
                f"the call {call_id} was made {other}",
                reason="call_id_other_arguments" if same_tool else "call_id_other_tool",
                hint="use a new id for a new call",
                field="call_id",
                call_id=call_id,
            )
        if call_id in self._open:
            return await asyncio.shield(self._open[call_id])
        if call_id in self._ended:
            return self._ended[call_id]
        row = await asyncio.to_thread(self._find, self._run_id, call_id)
        if row is None:
            raise InvalidRequest(
                f"the call {call_id} was made before, and its outcome is no longer stored",
                reason="call_id_used",
                hint="use a new id for a new call",
                field="call_id",
                call_id=call_id,
            )
        return outcome_of(row)

    def end(self, call_id: str, outcome: Outcome) -> None:
        self._ended[call_id] = outcome
        if len(self._ended) > ACTION_OUTCOMES_KEPT:
            self._ended.popitem(last=False)
        self._open.pop(call_id).set_result(outcome)


class CallRegistry:
    """The calls of all live runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[str, CallsOfRun] = {}

    async def of(self, run_id: str, ledger: Ledger) -> CallsOfRun:
        """The calls of a run, with those of earlier processes."""
        if run_id not in self._runs:
            calls = CallsOfRun(run_id, self._store.tool_call)
            if not ledger.fresh:
                for row in await asyncio.to_thread(self._store.tool_calls, run_id, 0, ACTIONS_PER_RUN):
                    calls.remember(row)
            self._runs.setdefault(run_id, calls)
        return self._runs[run_id]

    def forget(self, run_id: str) -> None:
        """Drop the calls of an ended run."""
        self._runs.pop(run_id, None)


# --- operations of the run API ---

_PLATFORM: Final = "platform.request"
_AGENT: Final = "agents.call"


def operation_of(graph: CapabilityGraph, id_or_name: str) -> str:
    """The run API operation for a capability: `platform.request` for a platform action, `agents.call` for an agent
    that is not a tool of the run, otherwise `tools.call`."""
    node = graph.node(id_or_name)
    if node is None:
        return CALL
    if node.capability.kind == "channel":
        return _PLATFORM
    if node.capability.kind == "agent" and CALL not in node.operations:
        return _AGENT
    return CALL


def granted_as(graph: CapabilityGraph, capability: Capability) -> tuple[str, str]:
    """The operation, and the name of the resource in the grant."""
    operation = operation_of(graph, capability.id)
    if operation == _PLATFORM:
        return operation, capability.name
    if operation == _AGENT:
        return operation, capability.id.partition(":")[2]
    return operation, capability.id

"""One call, and what came of it: frozen values, the second as its record has it."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Literal, cast

import msgspec

from bollard.host.actions.ports import Ledger
from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.graph import CALL, CapabilityGraph
from bollard.host.capabilities.sources import CallResult
from bollard.host.errors import BudgetExceeded, HostError, InvalidRequest
from bollard.host.limits import ACTION_OUTCOMES_KEPT, ACTIONS_PER_RUN
from bollard.host.store.action_rows import ToolCallRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

Status = Literal["completed", "failed", "rejected", "unknown"]
"""`failed`: it surely had no effect. `rejected`: it was not begun. `unknown`: it was, and nobody can say."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What a run asks for."""

    name: str
    """A short name of the run's graph, or an id."""
    arguments: JsonObject
    call_id: str | None = None
    """The caller's own; the host gives one where there is none."""
    explanation: str | None = None
    """The agent's own words."""
    target: str | None = None
    """Where it acts, where the arguments do not say it all."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of a call. A repeat of the call gets the same."""

    call_id: str
    capability: str
    status: Status
    content: tuple[dict[str, Any], ...] = ()
    structured: Any = None
    is_error: bool = False
    """The tool's own word: it did what it does, and that is an error."""
    artifact_refs: tuple[dict[str, Any], ...] = ()
    code: str | None = None
    message: str | None = None
    retryable: bool = False
    duration_ms: float = 0.0
    result_sha256: str | None = None
    size: int = 0
    flow: int = 0
    """What the run had touched when it was over, as bits."""

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
        """As the data of the record that ends it, whose type says the status."""
        told = cast("JsonObject", msgspec.to_builtins(self))
        del told["status"]
        return told


_read: Final = msgspec.json.Decoder(dict[str, Any]).decode


def outcome_of(row: ToolCallRow) -> Outcome:
    """What was recorded of a call. One whose end nobody wrote is unknown."""
    if row.status == "started" or row.result is None:
        return Outcome(
            call_id=row.call_id,
            capability=row.capability,
            status="unknown",
            code="outcome_unknown",
            message="the call was begun and its outcome was not learned",
            flow=row.flow,
        )
    return msgspec.convert({**_read(row.result), "status": row.status}, Outcome)


def refused_outcome(call_id: str, capability: str, status: Status, error: HostError, **more: Any) -> Outcome:
    """An error as the outcome of a call."""
    return Outcome(
        call_id=call_id,
        capability=capability,
        status=status,
        code=error.code,
        message=error.message,
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


# Which calls a run has made: each id once. A repeat gets what was recorded, whoever asks and however often.


class CallsOfRun:
    """The calls of one run, as far as this process knows them."""

    def __init__(self, run_id: str, find: Callable[[str, str], ToolCallRow | None]) -> None:
        self._run_id = run_id
        self._find = find
        self._made: dict[str, tuple[str, str]] = {}
        """What every call that was entered is of, and the digest of its arguments, by its id."""
        self._open: dict[str, asyncio.Future[Outcome]] = {}
        self._ended: OrderedDict[str, Outcome] = OrderedDict()
        self._given = 0

    def new_id(self) -> str:
        while (call_id := f"call_{self._given + 1}") in self._made:
            self._given += 1
        return call_id

    def remember(self, row: ToolCallRow) -> None:
        """A call of an earlier process. One that can be done twice and whose outcome nobody knows may be."""
        if row.status not in ("started", "unknown") or row.effects == "at_most_once":
            self._made[row.call_id] = (row.capability, row.arguments_sha256)

    async def entered(self, call_id: str, capability: str, arguments_sha256: str) -> Outcome | None:
        """What came of this call, when that is known; nothing where it is new, and then it is entered."""
        known = self._made.get(call_id)
        if known is None:
            if len(self._made) >= ACTIONS_PER_RUN:
                raise BudgetExceeded(f"a run makes {ACTIONS_PER_RUN} calls at most", hint="end the run")
            self._made[call_id] = (capability, arguments_sha256)
            self._open[call_id] = asyncio.get_running_loop().create_future()
            return None
        if known != (capability, arguments_sha256):
            other = "of another tool" if known[0] != capability else "with other arguments"
            raise InvalidRequest(
                f"the call {call_id} was made {other}",
                hint="give another call its own id",
                field="call_id",
            )
        if call_id in self._open:
            return await asyncio.shield(self._open[call_id])
        if call_id in self._ended:
            return self._ended[call_id]
        row = await asyncio.to_thread(self._find, self._run_id, call_id)
        if row is None:
            raise InvalidRequest(
                f"the call {call_id} was made before, and its outcome is not kept any more",
                hint="give another call its own id",
                field="call_id",
            )
        return outcome_of(row)

    def end(self, call_id: str, outcome: Outcome) -> None:
        self._ended[call_id] = outcome
        if len(self._ended) > ACTION_OUTCOMES_KEPT:
            self._ended.popitem(last=False)
        self._open.pop(call_id).set_result(outcome)


class CallRegistry:
    """One per host."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[str, CallsOfRun] = {}

    async def of(self, run_id: str, ledger: Ledger) -> CallsOfRun:
        """The calls of a run: those of earlier processes too, where there can be any."""
        if run_id not in self._runs:
            calls = CallsOfRun(run_id, self._store.tool_call)
            if not ledger.fresh:
                for row in await asyncio.to_thread(self._store.tool_calls, run_id, 0, ACTIONS_PER_RUN):
                    calls.remember(row)
            self._runs.setdefault(run_id, calls)
        return self._runs[run_id]

    def forget(self, run_id: str) -> None:
        """The run is over."""
        self._runs.pop(run_id, None)


# By which operation of the run API a capability is asked for, and what the grant calls it there. Pure.


_PLATFORM: Final = "platform.request"
_AGENT: Final = "agents.call"


def operation_of(graph: CapabilityGraph, id_or_name: str) -> str:
    """An action of a platform is requested, an agent may be called as itself; everything else is called as a tool."""
    node = graph.node(id_or_name)
    if node is None:
        return CALL
    if node.capability.kind == "channel":
        return _PLATFORM
    if node.capability.kind == "agent" and CALL not in node.operations:
        return _AGENT
    return CALL


def asked_as(graph: CapabilityGraph, capability: Capability) -> tuple[str, str]:
    """The operation, and the name of the thing in the grant."""
    operation = operation_of(graph, capability.id)
    if operation == _PLATFORM:
        return operation, capability.name
    if operation == _AGENT:
        return operation, capability.id.partition(":")[2]
    return operation, capability.id

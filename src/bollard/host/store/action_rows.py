"""The rows of tool calls and approvals: projections of `action.*` and `approval.*`."""

from typing import Literal

import msgspec

ToolCallStatus = Literal["started", "completed", "failed", "rejected", "unknown"]
"""`started`: the call may have had its effect, and its outcome is not known yet."""


class ToolCallRow(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a run. `record_id` is the record that created the row; `result` is the data of the final record."""

    run_id: str
    call_id: str
    workspace: str
    record_id: int
    capability: str
    name: str
    effects: str
    arguments_sha256: str
    approval_id: str | None
    flow: int
    """The flow of the run at the end of the call, as bits of `Flow`."""
    status: ToolCallStatus
    result: bytes | None
    started_ms: int
    ended_ms: int | None


ApprovalStatus = Literal["requested", "granted", "denied", "expired", "used"]


class ApprovalRow(msgspec.Struct, frozen=True, kw_only=True):
    """One approval. `body` is the data of the request record, `decision` that of the decision record."""

    approval_id: str
    workspace: str
    run_id: str
    call_id: str
    agent_id: str
    digest: str
    status: ApprovalStatus
    body: bytes
    decision: bytes | None
    created_ms: int
    expires_ms: int
    decided_ms: int | None


class PutToolCall(msgspec.Struct, frozen=True):
    """A call, new or started again."""

    row: ToolCallRow


class EndToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a started call."""

    run_id: str
    call_id: str
    status: ToolCallStatus
    result: bytes
    flow: int
    ended_ms: int


class PutApproval(msgspec.Struct, frozen=True):
    row: ApprovalRow


ApprovalField = Literal["status", "decision", "decided_ms"]


class PatchApproval(msgspec.Struct, frozen=True):
    approval_id: str
    fields: dict[ApprovalField, str | int | bytes | None]


_Key = tuple[str, str]


class CallChanges:
    """Combines the changes of calls in one commit, in order: a call that starts and ends in it is written once."""

    def __init__(self) -> None:
        self.rows: dict[_Key, ToolCallRow] = {}
        """Calls after the commit."""
        self.ends: dict[_Key, EndToolCall] = {}
        """Ends of calls that an earlier commit started."""

    def add(self, change: PutToolCall | EndToolCall) -> None:
        match change:
            case PutToolCall(row):
                key = (row.run_id, row.call_id)
                self.ends.pop(key, None)  # it starts again
                self.rows[key] = row
            case EndToolCall():
                key = (change.run_id, change.call_id)
                if key in self.rows:
                    self.rows[key] = ended(self.rows[key], change)
                else:
                    self.ends[key] = change


def ended(call: ToolCallRow, end: EndToolCall) -> ToolCallRow:
    return msgspec.structs.replace(call, status=end.status, result=end.result, flow=end.flow, ended_ms=end.ended_ms)

"""The rows of what runs do: their calls, and what people were asked about them. Projections of `action.*` and
`approval.*`."""

from typing import Literal

import msgspec

ToolCallStatus = Literal["started", "completed", "failed", "rejected", "unknown"]
"""`started`: it may have had its effect, and nobody has said yet what came of it."""


class ToolCallRow(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a run. `record_id` is the record that put it here; `result` is the data of the one that ended it."""

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
    """What the run had touched when the call had ended, as bits."""
    status: ToolCallStatus
    result: bytes | None
    started_ms: int
    ended_ms: int | None


ApprovalStatus = Literal["requested", "granted", "denied", "expired", "used"]


class ApprovalRow(msgspec.Struct, frozen=True, kw_only=True):
    """One question to people. `body` is the data of the record that asked, `decision` of the one that answered."""

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
    """A call, new or begun again."""

    row: ToolCallRow


class EndToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a call that was begun."""

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


# What one commit does to calls, gathered: a call that begins and ends in it is one row, and rows of one kind go in one
# statement. Pure.


_Key = tuple[str, str]


class CallChanges:
    """Fed in order."""

    def __init__(self) -> None:
        self.rows: dict[_Key, ToolCallRow] = {}
        """Calls as they are when the commit is over."""
        self.ends: dict[_Key, EndToolCall] = {}
        """Ends of calls that an earlier commit began."""

    def add(self, change: PutToolCall | EndToolCall) -> None:
        match change:
            case PutToolCall(row):
                key = (row.run_id, row.call_id)
                self.ends.pop(key, None)  # it begins again
                self.rows[key] = row
            case EndToolCall():
                key = (change.run_id, change.call_id)
                if key in self.rows:
                    self.rows[key] = ended(self.rows[key], change)
                else:
                    self.ends[key] = change


def ended(call: ToolCallRow, end: EndToolCall) -> ToolCallRow:
    return msgspec.structs.replace(call, status=end.status, result=end.result, flow=end.flow, ended_ms=end.ended_ms)

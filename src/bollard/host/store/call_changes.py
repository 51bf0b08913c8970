"""What one commit does to calls, gathered: a call that begins and ends in it is one row, and rows of one kind go in one
statement. Pure."""

import msgspec

from bollard.host.store.action_rows import EndToolCall, PutToolCall, ToolCallRow

__all__ = ["CallChanges"]

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

"""Makes rows of what a driver returns. Pure."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar, cast

import msgspec

from bollard.host.store.action_rows import ApprovalRow, ToolCallRow
from bollard.host.store.rows import (
    ArtifactRow,
    ConversationRow,
    DeltaRow,
    EventRow,
    HeadRow,
    KeptRow,
    OutboxRow,
    PolicyRow,
    RecordRow,
    RunRow,
    StateRow,
    StorageRow,
    TranscriptRow,
    WrittenState,
)

__all__ = [
    "read_approvals",
    "read_artifacts",
    "read_conversations",
    "read_deltas",
    "read_events",
    "read_heads",
    "read_kept",
    "read_outbox",
    "read_policies",
    "read_records",
    "read_runs",
    "read_states",
    "read_storage",
    "read_tool_calls",
    "read_transcript",
    "read_written_states",
]

_Row = TypeVar("_Row", bound=msgspec.Struct)
_Tuples = Sequence[tuple[object, ...]]


def _reader(row: type[_Row]) -> Callable[[_Tuples], list[_Row]]:
    names = row.__struct_fields__

    def read(tuples: _Tuples) -> list[_Row]:
        return [row(**dict(zip(names, values, strict=True))) for values in tuples]

    return read


read_approvals: Final = _reader(ApprovalRow)
read_artifacts: Final = _reader(ArtifactRow)
read_conversations: Final = _reader(ConversationRow)
read_deltas: Final = _reader(DeltaRow)
read_events: Final = _reader(EventRow)
read_heads: Final = _reader(HeadRow)
read_kept: Final = _reader(KeptRow)
read_policies: Final = _reader(PolicyRow)
read_runs: Final = _reader(RunRow)
read_states: Final = _reader(StateRow)
read_storage: Final = _reader(StorageRow)
read_tool_calls: Final = _reader(ToolCallRow)
read_transcript: Final = _reader(TranscriptRow)
read_written_states: Final = _reader(WrittenState)

_PREVIEW: Final = OutboxRow.__struct_fields__.index("preview")
_OBSERVED: Final = RecordRow.__struct_fields__.index("observed")


def read_records(tuples: _Tuples) -> list[RecordRow]:
    """SQLite has no booleans, and the hash of a record tells `1` from `true`."""
    names, rows = RecordRow.__struct_fields__, list[RecordRow]()
    for values in tuples:
        fields = dict(zip(names, values, strict=True))
        fields["observed"] = bool(values[_OBSERVED])
        rows.append(cast("Callable[..., RecordRow]", RecordRow)(**fields))
    return rows


def read_outbox(tuples: _Tuples) -> list[OutboxRow]:
    """The same for what is only a preview."""
    names, rows = OutboxRow.__struct_fields__, list[OutboxRow]()
    for values in tuples:
        fields = dict(zip(names, values, strict=True))
        fields["preview"] = bool(values[_PREVIEW])
        rows.append(cast("Callable[..., OutboxRow]", OutboxRow)(**fields))
    return rows

"""What records mean for the calls of runs and for what people are asked about them. Pure.

A call that was approved after its run had ended is written without that run: then the record's data names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from bollard.host.store.action_rows import (
    ApprovalField,
    ApprovalRow,
    ApprovalStatus,
    EndToolCall,
    PatchApproval,
    PutApproval,
    PutToolCall,
    ToolCallRow,
    ToolCallStatus,
)

if TYPE_CHECKING:
    from bollard.host.store.rows import Change, RecordRow
    from bollard.protocol import JsonObject

__all__ = ["ACTIONS"]


def _run_of(row: RecordRow, data: JsonObject) -> str:
    return row.run_id or str(data.get("run_id", ""))


def _begun(row: RecordRow, data: JsonObject, status: ToolCallStatus) -> ToolCallRow:
    fields = cast("dict[str, Any]", data)
    return ToolCallRow(
        run_id=_run_of(row, data),
        call_id=fields["call_id"],
        workspace=row.workspace,
        record_id=row.id,
        capability=fields["capability"],
        name=fields["name"],
        effects=fields.get("effects", "at_most_once"),
        arguments_sha256=fields["arguments_sha256"],
        approval_id=fields.get("approval_id"),
        flow=fields.get("flow", 0),
        status=status,
        result=None,
        started_ms=row.created_ms,
        ended_ms=None,
    )


def _started(row: RecordRow, data: JsonObject) -> list[Change]:
    return [PutToolCall(_begun(row, data, "started"))]


def _rejected(row: RecordRow, data: JsonObject) -> list[Change]:
    """It never began: this record is all there is of it."""
    call = _begun(row, data, "rejected")
    return [PutToolCall(call), _end_of(row, data, "rejected")]


def _ended(row: RecordRow, data: JsonObject) -> list[Change]:
    return [_end_of(row, data, cast("ToolCallStatus", row.type.removeprefix("action.")))]


def _end_of(row: RecordRow, data: JsonObject, status: ToolCallStatus) -> EndToolCall:
    fields = cast("dict[str, Any]", data)
    return EndToolCall(
        run_id=_run_of(row, data),
        call_id=fields["call_id"],
        status=status,
        result=row.data or b"{}",
        flow=fields.get("flow", 0),
        ended_ms=row.created_ms,
    )


def _requested(row: RecordRow, data: JsonObject) -> list[Change]:
    fields = cast("dict[str, Any]", data)
    return [
        PutApproval(
            ApprovalRow(
                approval_id=fields["approval_id"],
                workspace=row.workspace,
                run_id=_run_of(row, data),
                call_id=fields["call_id"],
                agent_id=fields["agent_id"],
                digest=fields["digest"],
                status="requested",
                body=row.data or b"{}",
                decision=None,
                created_ms=row.created_ms,
                expires_ms=fields["expires_ms"],
                decided_ms=None,
            )
        )
    ]


def _decided(row: RecordRow, data: JsonObject) -> list[Change]:
    status = cast("ApprovalStatus", row.type.removeprefix("approval."))
    fields: dict[ApprovalField, str | int | bytes | None] = {"status": status}
    if status != "used":  # what was decided stays there to be read
        fields |= {"decision": row.data, "decided_ms": row.created_ms}
    return [PatchApproval(str(data["approval_id"]), fields)]


ACTIONS: Final[Mapping[str, Callable[[RecordRow, JsonObject], list[Change]]]] = {
    "action.started": _started,
    "action.completed": _ended,
    "action.failed": _ended,
    "action.rejected": _rejected,
    "action.unknown": _ended,
    "approval.requested": _requested,
    "approval.granted": _decided,
    "approval.denied": _decided,
    "approval.expired": _decided,
    "approval.used": _decided,
}
"""Handlers by type of record."""

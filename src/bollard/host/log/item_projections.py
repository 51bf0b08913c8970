"""Projections of tool calls, approvals, questions, artifacts and steering. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from bollard.host.log.outbox_projections import interaction_closed, interaction_opened, run_of
from bollard.host.log.records import flow_in
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
from bollard.host.store.rows import (
    MESSAGE_SOURCE,
    ArtifactRow,
    Change,
    DropArtifact,
    EventField,
    EventRow,
    PatchEvent,
    RecordRow,
    Steering,
)

if TYPE_CHECKING:
    from bollard.protocol import JsonObject


# --- tool calls and approvals ---


def _begun(row: RecordRow, data: JsonObject, status: ToolCallStatus) -> ToolCallRow:
    fields = cast("dict[str, Any]", data)
    return ToolCallRow(
        run_id=run_of(row, data),
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
    """The call never started: this is its only record."""
    call = _begun(row, data, "rejected")
    return [PutToolCall(call), _end_of(row, data, "rejected")]


def _ended(row: RecordRow, data: JsonObject) -> list[Change]:
    return [_end_of(row, data, cast("ToolCallStatus", row.type.removeprefix("action.")))]


def _end_of(row: RecordRow, data: JsonObject, status: ToolCallStatus) -> EndToolCall:
    fields = cast("dict[str, Any]", data)
    return EndToolCall(
        run_id=run_of(row, data),
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
                run_id=run_of(row, data),
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
        ),
        *interaction_opened(row, data),
    ]


def _decided(row: RecordRow, data: JsonObject) -> list[Change]:
    status = cast("ApprovalStatus", row.type.removeprefix("approval."))
    fields: dict[ApprovalField, str | int | bytes | None] = {"status": status}
    if status != "used":  # the decision stays readable
        fields |= {"decision": row.data, "decided_ms": row.created_ms}
    return [PatchApproval(str(data["approval_id"]), fields), *interaction_closed(row, data)]


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
"""Handlers by record type."""
QUESTIONS: Final[Mapping[str, Callable[[RecordRow, JsonObject], list[Change]]]] = {
    "question.asked": interaction_opened,
    "question.answered": interaction_closed,
    "question.expired": interaction_closed,
}


# --- artifacts that no run made ---

_encode: Final = msgspec.json.Encoder().encode
_OF_MESSAGE: Final = ("by", "bot", "thread", "event_id", "fetch")
"""The metadata of a file of a message."""


def uploaded(row: RecordRow, data: JsonObject) -> ArtifactRow:
    """A file of the workspace. Runs have no access by default, and it never expires."""
    return ArtifactRow(
        artifact_id=cast("str", data["artifact_id"]),
        workspace=row.workspace,
        run_id=None,
        runner_id=None,
        conversation=None,
        type=cast("str", data["artifact_type"]),
        mime_type=cast("str", data["mime_type"]),
        name=cast("str", data["name"]),
        size_bytes=cast("int", data["size_bytes"]),
        sha256=cast("str", data["sha256"]),
        source="upload",
        created_ms=row.created_ms,
        expires_ms=None,
        metadata=_encode({"by": data["by"]}),
        flow=flow_in(data),
    )


def message_file(row: RecordRow, data: JsonObject) -> ArtifactRow:
    """A file that came with a message, or was uploaded for one. The conversation can read it; without a conversation
    the run of the message can."""
    return ArtifactRow(
        artifact_id=cast("str", data["artifact_id"]),
        workspace=row.workspace,
        run_id=cast("str | None", data.get("run_id")),
        runner_id=None,
        conversation=cast("str | None", data.get("conversation")),
        type=cast("str", data["artifact_type"]),
        mime_type=cast("str", data["mime_type"]),
        name=cast("str | None", data.get("name")),
        size_bytes=cast("int | None", data.get("size_bytes")),
        sha256=cast("str | None", data.get("sha256")),
        source=MESSAGE_SOURCE,
        created_ms=row.created_ms,
        expires_ms=cast("int | None", data.get("expires_ms")),
        metadata=_encode({name: data[name] for name in _OF_MESSAGE if name in data}),
        flow=flow_in(data),
    )


def raw_artifact(row: RecordRow, raw: JsonObject, event: EventRow) -> ArtifactRow:
    """The full payload of an event, readable by the run of the event and by its conversation."""
    mime_type = raw.get("mime_type")
    return ArtifactRow(
        artifact_id=cast("str", raw["artifact_id"]),
        workspace=row.workspace,
        run_id=event.run_id,
        runner_id=None,
        conversation=event.conversation if event.dispatch != "dropped" else None,
        type="raw",
        mime_type=mime_type if isinstance(mime_type, str) else None,
        name=event.event_id,  # retention finds it by this name
        size_bytes=cast("int", raw["size_bytes"]),
        sha256=cast("str", raw["sha256"]),
        source="event",
        created_ms=row.created_ms,
        expires_ms=cast("int | None", raw.get("expires_ms")),
        metadata=b"{}",
        flow=event.flow,
    )


def _deleted(row: RecordRow, data: JsonObject) -> list[Change]:
    return [DropArtifact(row.workspace, cast("str", data["artifact_id"]))]


ARTIFACTS: Final[Mapping[str, Callable[[RecordRow, JsonObject], list[Change]]]] = {"artifact.deleted": _deleted}


# --- steering: events that wait for a run, or are injected into an active one ---


def _steering_queued(row: RecordRow, data: JsonObject) -> list[Change]:
    """An active run claims the event."""
    return [_steered(row, data, "queued", dispatch="steering", run_id=row.run_id)]


def _moved(row: RecordRow, data: JsonObject) -> list[Change]:
    return [_steered(row, data, cast("Steering", row.type.removeprefix("steering.")))]


def _dropped(row: RecordRow, data: JsonObject) -> list[Change]:
    """The claim failed: the event waits for its own run, or is dropped."""
    if data.get("redispatch") is True:
        return [_steered(row, data, "dropped", dispatch="pending", run_id=None)]
    return [_steered(row, data, "dropped", dispatch="dropped")]


def _steered(row: RecordRow, data: JsonObject, steering: Steering, **more: str | None) -> PatchEvent:
    fields: dict[str, str | int | None] = {"steering": steering, "steering_ms": row.created_ms, **more}
    return PatchEvent(row.workspace, str(data["event_id"]), cast("dict[EventField, str | int | None]", fields))


def _event_dropped(row: RecordRow, data: JsonObject) -> list[Change]:
    """The event waited for a run and gets none, for example in a restored copy."""
    return [PatchEvent(row.workspace, str(data["event_id"]), {"dispatch": "dropped"})]


STEERING: Final[Mapping[str, Callable[[RecordRow, JsonObject], list[Change]]]] = {
    "event.dropped": _event_dropped,
    "steering.queued": _steering_queued,
    "steering.injected": _moved,
    "steering.acknowledged": _moved,
    "steering.dropped": _dropped,
}

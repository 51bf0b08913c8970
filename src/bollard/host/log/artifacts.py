"""What records mean for artifacts that no run made: files of the workspace, and what senders sent in full. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

import msgspec

from bollard.host.log.flow_bits import flow_in
from bollard.host.store.rows import ArtifactRow, Change, DropArtifact, EventRow, RecordRow

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["ARTIFACTS", "raw_artifact", "uploaded"]

_encode: Final = msgspec.json.Encoder().encode


def uploaded(row: RecordRow, data: JsonObject) -> ArtifactRow:
    """A file of the workspace: in reach of no run by itself, and there until it is deleted."""
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


def raw_artifact(row: RecordRow, raw: JsonObject, event: EventRow) -> ArtifactRow:
    """What the sender sent in full: in reach of the run that has the event, and of its conversation."""
    mime_type = raw.get("mime_type")
    return ArtifactRow(
        artifact_id=cast("str", raw["artifact_id"]),
        workspace=row.workspace,
        run_id=event.run_id,
        runner_id=None,
        conversation=event.conversation if event.dispatch != "dropped" else None,
        type="raw",
        mime_type=mime_type if isinstance(mime_type, str) else None,
        name=event.event_id,  # by which retention finds it
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

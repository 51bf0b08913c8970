"""What records mean for messages that wait for a run or go into one that is there. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from bollard.host.store.rows import Change, EventField, PatchEvent, Steering

if TYPE_CHECKING:
    from bollard.host.store.rows import RecordRow
    from bollard.protocol import JsonObject

__all__ = ["STEERING"]


def _queued(row: RecordRow, data: JsonObject) -> list[Change]:
    """A run that was there claims the event."""
    return [_steered(row, data, "queued", dispatch="steering", run_id=row.run_id)]


def _moved(row: RecordRow, data: JsonObject) -> list[Change]:
    return [_steered(row, data, cast("Steering", row.type.removeprefix("steering.")))]


def _dropped(row: RecordRow, data: JsonObject) -> list[Change]:
    """The claim came to nothing: the event waits for a run of its own, or it is over with it."""
    if data.get("redispatch") is True:
        return [_steered(row, data, "dropped", dispatch="pending", run_id=None)]
    return [_steered(row, data, "dropped", dispatch="dropped")]


def _steered(row: RecordRow, data: JsonObject, steering: Steering, **more: str | None) -> PatchEvent:
    fields: dict[str, str | int | None] = {"steering": steering, "steering_ms": row.created_ms, **more}
    return PatchEvent(row.workspace, str(data["event_id"]), cast("dict[EventField, str | int | None]", fields))


def _never_had(row: RecordRow, data: JsonObject) -> list[Change]:
    """It waited for a run and gets none: what it waited in is a copy of the past."""
    return [PatchEvent(row.workspace, str(data["event_id"]), {"dispatch": "dropped"})]


STEERING: Final[Mapping[str, Callable[[RecordRow, JsonObject], list[Change]]]] = {
    "event.dropped": _never_had,
    "steering.queued": _queued,
    "steering.injected": _moved,
    "steering.acknowledged": _moved,
    "steering.dropped": _dropped,
}
"""Handlers by type of record."""

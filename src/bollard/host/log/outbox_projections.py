"""Projections of the outbox: messages, interactions and the progress of their deliveries. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from bollard.host.log.records import InteractionRoute
from bollard.host.store.rows import Change, OutboxField, OutboxRow, PatchOutbox, PutOutbox, RecordRow

if TYPE_CHECKING:
    from bollard.host.log.records import DeliverTo, RunFacts
    from bollard.protocol import JsonObject

_encode: Final = msgspec.json.Encoder().encode


# --- messages ---
#
# The record that completes a message also queues it, in the same commit, so a crash cannot lose it in between.


def queued_message(row: RecordRow, facts: RunFacts, data: JsonObject) -> list[Change]:
    """Queue a completed message of a run that delivers to a channel. Only messages of the assistant are sent."""
    target = facts.deliver_to
    message = cast("JsonObject", data["message"])
    if target is None or message.get("role", "assistant") != "assistant":
        return []
    if message.get("tool_calls") and not message.get("content"):
        return []  # it only calls tools
    key = data.get("message_id")
    return [_queued(row, facts, target, key if isinstance(key, str) else "")]


def queued_failure(row: RecordRow, facts: RunFacts | None, data: JsonObject) -> list[Change]:
    """Queue a failure notice for a run that failed or timed out. A cancelled run sends none."""
    if facts is None or facts.deliver_to is None or data.get("status") not in ("failed", "timeout"):
        return []
    return [_queued(row, facts, facts.deliver_to, "")]


def _queued(row: RecordRow, facts: RunFacts, target: DeliverTo, message_key: str) -> PutOutbox:
    return _outbox_row(
        row,
        delivery_id=f"{facts.run_id}.{row.seq}",
        channel=target.channel,
        target=target.target,
        run_id=facts.run_id,
        event_id=facts.event_id,
        message_key=message_key,
        max_message_size=target.max_message_size,
    )


def _outbox_row(
    row: RecordRow,
    *,
    delivery_id: str,
    channel: str,
    target: str,
    run_id: str,
    event_id: str,
    message_key: str = "",
    max_message_size: int | None,
    preview: bool = False,
) -> PutOutbox:
    return PutOutbox(
        OutboxRow(
            delivery_id=delivery_id,
            workspace=row.workspace,
            channel=channel,
            target=target,
            run_id=run_id,
            event_id=event_id,
            message_key=message_key,
            preview=preview,
            record_id=row.id,
            max_message_size=max_message_size,
            status="started" if preview else "queued",
            attempts=0,
            due_ms=row.created_ms,
            messages=b"[]",
            reason=None,
            created_ms=row.created_ms,
            updated_ms=row.created_ms,
        )
    )


def _delivery_queued(row: RecordRow, data: JsonObject) -> list[Change]:
    """Queue a message of the host itself, which belongs to no run."""
    size = data.get("max_message_size")
    return [
        _outbox_row(
            row,
            delivery_id=str(data["delivery_id"]),
            channel=str(data["channel"]),
            target=str(data["target"]),
            run_id="",
            event_id=str(data["event_id"]),
            max_message_size=size if isinstance(size, int) else None,
        )
    ]


def _delivery_started(row: RecordRow, data: JsonObject) -> list[Change]:
    """From this record on the message may leave the host. The first record of a preview creates its row."""
    preview = data.get("preview")
    if not isinstance(preview, dict):
        return [_patch(row, data, status="started")]
    fields = cast("dict[str, Any]", preview)
    return [
        _outbox_row(
            row,
            delivery_id=str(data["delivery_id"]),
            channel=fields["channel"],
            target=fields["target"],
            run_id=fields["run_id"],
            event_id=fields["event_id"],
            message_key=fields["message_key"],
            max_message_size=fields.get("max_message_size"),
            preview=True,
        )
    ]


def _shown(row: RecordRow, data: JsonObject) -> list[Change]:
    """A preview, or the first parts of a message, were sent; more follow."""
    status = "shown" if data.get("preview") is True else "queued"
    return [_patch(row, data, status=status, messages=_encode(data["messages"]))]


def _deferred(row: RecordRow, data: JsonObject) -> list[Change]:
    fields = {name: data[name] for name in ("attempts", "due_ms", "reason")}
    return [_patch(row, data, status="queued", **fields)]


def _sent(row: RecordRow, data: JsonObject) -> list[Change]:
    messages = _encode(data["messages"])
    changes: list[Change] = [_patch(row, data, status="sent", messages=messages, reason=None)]
    if isinstance(preview := data.get("preview"), str):
        changes.append(_patch(row, {"delivery_id": preview}, status="sent"))
    return changes


def _failed(row: RecordRow, data: JsonObject) -> list[Change]:
    return [_patch(row, data, status="failed", reason=data["reason"])]


def _unknown(row: RecordRow, data: JsonObject) -> list[Change]:
    return [_patch(row, data, status="unknown", reason=data["reason"])]


def _patch(row: RecordRow, data: JsonObject, **fields: object) -> PatchOutbox:
    changed = {**fields, "updated_ms": row.created_ms}
    return PatchOutbox(str(data["delivery_id"]), cast("dict[OutboxField, str | int | bytes | None]", changed))


DELIVERIES: Final[Mapping[str, Callable[[RecordRow, JsonObject], list[Change]]]] = {
    "delivery.queued": _delivery_queued,
    "delivery.started": _delivery_started,
    "delivery.shown": _shown,
    "delivery.deferred": _deferred,
    "delivery.sent": _sent,
    "delivery.failed": _failed,
    "delivery.unknown": _unknown,
}


# --- interactions: approvals and questions in a conversation ---
#
# The record that opens or closes one also queues the operation that shows it. Both have its route, because a projector
# does not know the runs that have ended.


def interaction_opened(row: RecordRow, data: JsonObject) -> list[Change]:
    return _shown_interaction(row, data, opened_delivery)


def interaction_closed(row: RecordRow, data: JsonObject) -> list[Change]:
    return _shown_interaction(row, data, closed_delivery)


def opened_delivery(interaction_id: str) -> str:
    """The delivery that shows an interaction first."""
    return f"{interaction_id}.opened"


def closed_delivery(interaction_id: str) -> str:
    """The delivery that shows the outcome of an interaction."""
    return f"{interaction_id}.closed"


def _shown_interaction(row: RecordRow, data: JsonObject, delivery_of: Callable[[str], str]) -> list[Change]:
    if (shown := data.get("interaction")) is None:
        return []
    route = msgspec.convert(shown, InteractionRoute)
    return [
        _outbox_row(
            row,
            delivery_id=delivery_of(route.id),
            channel=route.channel,
            target=route.target,
            run_id=run_of(row, data),
            event_id=route.event_id,
            max_message_size=route.max_message_size,
        )
    ]


def run_of(row: RecordRow, data: JsonObject) -> str:
    """The run of a call. A call that was approved after its run had ended is recorded outside of the run, and its data
    names the run."""
    return row.run_id or str(data.get("run_id", ""))

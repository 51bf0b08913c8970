"""What records mean for the outbox: messages of runs on their way to channels. Pure.

A message is queued by the record that completes it, in the same commit: between a message and its delivery there is no
instant at which a crash could lose it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from bollard.host.store.rows import Change, OutboxField, OutboxRow, PatchOutbox, PutOutbox

if TYPE_CHECKING:
    from bollard.host.log.facts import DeliverTo, RunFacts
    from bollard.host.store.rows import RecordRow
    from bollard.protocol import JsonObject

__all__ = ["DELIVERIES", "queued_failure", "queued_message"]

_encode: Final = msgspec.json.Encoder().encode


def queued_message(row: RecordRow, facts: RunFacts, data: JsonObject) -> list[Change]:
    """`message.completed` of a run whose messages go to a channel. Only what the agent says is sent."""
    goes_to = facts.deliver_to
    message = cast("JsonObject", data["message"])
    if goes_to is None or message.get("role", "assistant") != "assistant":
        return []
    if message.get("tool_calls") and not message.get("content"):
        return []  # it only calls tools: there is nothing to say
    key = data.get("message_id")
    return [_queued(row, facts, goes_to, key if isinstance(key, str) else "")]


def queued_failure(row: RecordRow, facts: RunFacts | None, data: JsonObject) -> list[Change]:
    """`run.ended` of such a run: whoever waits for an answer is told that none will come. Nobody is told of a run that
    somebody stopped."""
    if facts is None or facts.deliver_to is None or data.get("status") not in ("failed", "timeout"):
        return []
    return [_queued(row, facts, facts.deliver_to, "")]


def _queued(row: RecordRow, facts: RunFacts, goes_to: DeliverTo, message_key: str) -> PutOutbox:
    return PutOutbox(
        OutboxRow(
            delivery_id=f"{facts.run_id}.{row.seq}",
            workspace=row.workspace,
            channel=goes_to.channel,
            target=goes_to.target,
            run_id=facts.run_id,
            event_id=facts.event_id,
            message_key=message_key,
            preview=False,
            record_id=row.id,
            max_message_size=goes_to.max_message_size,
            status="queued",
            attempts=0,
            due_ms=row.created_ms,
            messages=b"[]",
            reason=None,
            created_ms=row.created_ms,
            updated_ms=row.created_ms,
        )
    )


def _started(row: RecordRow, data: JsonObject) -> list[Change]:
    """It may leave the host from now on. A preview begins with it."""
    preview = data.get("preview")
    if not isinstance(preview, dict):
        return [_patch(row, data, status="started")]
    fields = cast("dict[str, Any]", preview)
    return [
        PutOutbox(
            OutboxRow(
                delivery_id=str(data["delivery_id"]),
                workspace=row.workspace,
                channel=fields["channel"],
                target=fields["target"],
                run_id=fields["run_id"],
                event_id=fields["event_id"],
                message_key=fields["message_key"],
                preview=True,
                record_id=row.id,
                max_message_size=fields.get("max_message_size"),
                status="started",
                attempts=0,
                due_ms=row.created_ms,
                messages=b"[]",
                reason=None,
                created_ms=row.created_ms,
                updated_ms=row.created_ms,
            )
        )
    ]


def _shown(row: RecordRow, data: JsonObject) -> list[Change]:
    """A preview, or the first parts of a message, are there; more will come."""
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
    "delivery.started": _started,
    "delivery.shown": _shown,
    "delivery.deferred": _deferred,
    "delivery.sent": _sent,
    "delivery.failed": _failed,
    "delivery.unknown": _unknown,
}

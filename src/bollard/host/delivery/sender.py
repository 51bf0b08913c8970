"""One message of the outbox to its channel: cut into parts, each sent as often as the channel allows, each outcome on
disk before the next step.

With native dedupe what is in doubt is sent again under its key. Without, it is marked before it leaves, leaves once,
and is unknown when nobody can say whether it arrived.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog

from bollard.host.channels.channel import Channel, Delivered, DeliveryUnknown, NotDelivered, Outgoing
from bollard.host.channels.registry import Channels
from bollard.host.clock import Clock
from bollard.host.delivery.delivery_log import DeliveryLog
from bollard.host.delivery.previews import Preview, Previews, split
from bollard.host.errors import HostError
from bollard.host.limits import DELIVERY_AGE_S, DELIVERY_ATTEMPTS, DELIVERY_WAIT_MAX_S, DELIVERY_WAIT_S
from bollard.host.log.kill_points import kill_point
from bollard.host.store.rows import OutboxRow
from bollard.host.store.store import Store

_log = structlog.get_logger("bollard.delivery")
_decode: Final = msgspec.json.Decoder().decode
_OFF_S: Final = 10.0
"""Time between two looks whether a channel that was switched off is on again."""


@dataclass(slots=True)
class PendingDelivery:
    """One message on its way, as this host knows it."""

    row: OutboxRow
    attempts: int = 0
    messages: list[str] = field(default_factory=list[str])
    """The channel's own ids of the parts that arrived."""
    left_before: bool = False
    """Whether an earlier incarnation may have sent a part that nobody wrote down."""
    preview: Preview | None = None
    preview_asked: bool = False

    @classmethod
    def of(cls, row: OutboxRow) -> "PendingDelivery":
        return cls(row, row.attempts, _decode(row.messages), left_before=row.status == "started")


@dataclass(slots=True)
class Counts:
    """What became of messages since the start."""

    sent: int = 0
    failed: int = 0
    unknown: int = 0
    retried: int = 0


class _Element(msgspec.Struct):
    type: str = ""
    text: str | None = None


class _Ref(msgspec.Struct):
    artifact_id: str


class _Message(msgspec.Struct):
    content: str | list[_Element] | None = None
    artifact_refs: list[_Ref] | None = None


class _Completed(msgspec.Struct):
    """The data of `message.completed`, as far as it can be sent."""

    message: _Message


class _Ended(msgspec.Struct):
    """The data of `run.ended`."""

    code: str | None = None


_completed: Final = msgspec.json.Decoder(_Completed).decode
_ended: Final = msgspec.json.Decoder(_Ended).decode


class _Content(msgspec.Struct, frozen=True):
    text: str = ""
    artifacts: tuple[str, ...] = ()
    failed: str | None = None


class Sender:
    """Knows no order: whoever calls decides what comes next."""

    def __init__(self, channels: Channels, log: DeliveryLog, previews: Previews, store: Store, clock: Clock) -> None:
        self._channels = channels
        self._log = log
        self._previews = previews
        self._store = store
        self._clock = clock
        self.counts = Counts()

    async def deliver(self, waiting: PendingDelivery) -> float | None:
        """Try it; how long to wait before the next try, or `None` when it is over."""
        row = waiting.row
        if self._clock.now_ms() - row.created_ms > DELIVERY_AGE_S * 1000:
            over = self._doubt if waiting.left_before else self._fail
            return await over(waiting, "it waited too long")
        channel = self._channels.sender(row.workspace, row.channel)
        if channel is None:
            if self._channels.is_off(row.workspace, row.channel):
                return _OFF_S
            return await self._fail(waiting, f"there is no channel {row.channel} that sends")
        if waiting.left_before and channel.abilities.dedupe == "none":
            return await self._doubt(waiting, "the host ended while it was being sent")
        content = await asyncio.to_thread(self._content, row)
        if content is None:
            return await self._fail(waiting, "the message is not kept any more")
        if content.failed is not None:
            waiting.preview_asked = True  # it is no message, so nothing was shown of it
        sizes = [size for size in (row.max_message_size, channel.abilities.max_message_size) if size is not None]
        empty = [""] if content.artifacts or content.failed else []
        parts = split(content.text, min(sizes) if sizes else None) or empty
        if not parts:
            return await self._fail(waiting, "there is nothing in it that can be sent")
        await self._ask_for_preview(waiting)
        try:
            return await self._send_parts(waiting, channel, parts, content)
        except HostError as error:  # it could not be written down that it leaves, so it did not leave
            _log.warning("a message waits for the store", delivery=row.delivery_id, problem=error.message)
            return DELIVERY_WAIT_S

    async def _send_parts(
        self, waiting: PendingDelivery, channel: Channel, parts: list[str], content: "_Content"
    ) -> float | None:
        row, native = waiting.row, channel.abilities.dedupe == "native"
        edit_of: str | None = None
        if not waiting.messages:
            found = await self._previewed(waiting, channel, parts[0])
            if isinstance(found, NotDelivered | DeliveryUnknown):
                return await self._defer(
                    waiting, found.reason, found.retry_after_s if isinstance(found, NotDelivered) else None
                )
            edit_of = found
        while (part := len(waiting.messages)) < len(parts):
            edits = edit_of if part == 0 else None
            if not native and edits is None:
                await self._log.started(row, part)
            kill_point("delivery.before_send")
            last = part == len(parts) - 1
            outgoing = Outgoing(
                key=f"{row.delivery_id}.{part}",
                target=row.target,
                text=parts[part],
                run_id=row.run_id,
                event_id=row.event_id,
                part=part,
                parts=len(parts),
                edit_of=edits,
                failed=content.failed,
                artifacts=content.artifacts if last else (),
            )
            outcome = await channel.send(outgoing)
            kill_point("delivery.after_send")
            match outcome:
                case Delivered(message):
                    waiting.messages.append(message or "")
                    if not last:
                        await self._log.shown(row, waiting.messages)
                case DeliveryUnknown(reason) if not native and edits is None:
                    return await self._doubt(waiting, reason)
                case DeliveryUnknown(reason):  # the same key again, or the same text again: that changes nothing
                    return await self._defer(waiting, reason, None)
                case NotDelivered(reason, retryable, retry_after_s):
                    if edits is not None and not retryable:  # what was shown is gone: the message stands on its own
                        edit_of = None
                        continue
                    if not retryable:
                        return await self._fail(waiting, reason)
                    return await self._defer(waiting, reason, retry_after_s)
        await self._log.sent(row, waiting.messages, None if waiting.preview is None else waiting.preview.delivery_id)
        self.counts.sent += 1
        return None

    # --- what was shown of it before ---

    async def _ask_for_preview(self, waiting: PendingDelivery) -> None:
        if not waiting.preview_asked:
            waiting.preview_asked = True
            waiting.preview = await self._previews.take(waiting.row.run_id, waiting.row.message_key)

    async def _previewed(
        self, waiting: PendingDelivery, channel: Channel, text: str
    ) -> str | NotDelivered | DeliveryUnknown | None:
        """The message that stands there already and gets its text by an edit; or what keeps us from knowing it."""
        preview, row = waiting.preview, waiting.row
        if preview is None or preview.message is not None:
            return None if preview is None else preview.message
        if channel.abilities.dedupe == "native":  # whether it is there can be found out by sending it again
            outgoing = Outgoing(
                key=preview.delivery_id,
                target=row.target,
                text=text,
                run_id=row.run_id,
                event_id=row.event_id,
                final=False,
            )
            outcome = await channel.send(outgoing)
            if isinstance(outcome, Delivered):
                preview.message = outcome.message
                return outcome.message
            return None if isinstance(outcome, NotDelivered) and not outcome.retryable else outcome
        reason = "no answer came when it was first shown"
        await self._log.unknown(row.workspace, preview.delivery_id, row.run_id, reason)
        waiting.preview = None
        return None

    # --- how it ends ---

    async def _defer(self, waiting: PendingDelivery, reason: str, retry_after_s: float | None) -> float | None:
        waiting.attempts += 1
        if waiting.attempts >= DELIVERY_ATTEMPTS:
            return await self._fail(waiting, f"{reason}; it was tried {waiting.attempts} times")
        wait_s = min(max(DELIVERY_WAIT_S * 2 ** (waiting.attempts - 1), retry_after_s or 0.0), DELIVERY_WAIT_MAX_S)
        self.counts.retried += 1
        due_ms = self._clock.now_ms() + round(wait_s * 1000)
        await self._log.deferred(waiting.row, waiting.attempts, due_ms, reason)
        return wait_s

    async def _fail(self, waiting: PendingDelivery, reason: str) -> None:
        row = waiting.row
        _log.warning("a message was not delivered", delivery=row.delivery_id, channel=row.channel, problem=reason)
        await self._log.failed(row.workspace, row.delivery_id, row.run_id, reason)
        await self._forget_preview(waiting, reason)
        self.counts.failed += 1

    async def _doubt(self, waiting: PendingDelivery, reason: str) -> None:
        row = waiting.row
        _log.warning("whether a message arrived is unknown", delivery=row.delivery_id, channel=row.channel)
        await self._log.unknown(row.workspace, row.delivery_id, row.run_id, reason)
        await self._forget_preview(waiting, reason)
        self.counts.unknown += 1

    async def _forget_preview(self, waiting: PendingDelivery, reason: str) -> None:
        await self._ask_for_preview(waiting)
        if waiting.preview is not None:
            await self._log.failed(waiting.row.workspace, waiting.preview.delivery_id, waiting.row.run_id, reason)

    # --- what it says ---

    def _content(self, row: OutboxRow) -> _Content | None:
        record = next(iter(self._store.records(row.record_id - 1, 1)), None)
        if record is None or record.data is None:
            return None
        if record.type == "run.ended":
            return _Content(failed=_ended(record.data).code or "failed")
        said = _completed(record.data).message
        if not isinstance(said.content, list):
            text = said.content or ""
        else:  # other elements have no text to send
            text = "\n".join(part.text for part in said.content if part.type == "text" and part.text is not None)
        return _Content(text, tuple(ref.artifact_id for ref in said.artifact_refs or ()))

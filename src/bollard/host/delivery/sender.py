"""Sends one message of the outbox to its channel, in parts, and records each outcome before the next step.

With native deduplication a doubtful part is sent again under its idempotency key. Without, a part is recorded before it
is sent, sent at most once, and its outcome is unknown if the channel does not confirm it.
"""

from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog

from bollard.host.channels.channel import Channel, Delivered, DeliveryUnknown, NotDelivered, Outgoing
from bollard.host.channels.registry import Channels
from bollard.host.clock import Clock
from bollard.host.delivery.channel_status import ChannelStatuses
from bollard.host.delivery.contents import Content, Contents
from bollard.host.delivery.delivery_log import DeliveryLog
from bollard.host.delivery.previews import Preview, Previews
from bollard.host.delivery.retry import wait_before
from bollard.host.delivery.text_parts import split
from bollard.host.errors import HostError
from bollard.host.limits import DELIVERY_AGE_S, DELIVERY_WAIT_S
from bollard.host.log.kill_points import kill_point
from bollard.host.store.rows import OutboxRow

_log = structlog.get_logger("bollard.delivery")
_decode: Final = msgspec.json.Decoder().decode
_OFF_S: Final = 10.0
"""Time before a switched-off channel is checked again."""


@dataclass(slots=True)
class PendingDelivery:
    """One message and the progress of its delivery."""

    row: OutboxRow
    attempts: int = 0
    messages: list[str] = field(default_factory=list[str])
    """The channel's own ids of the parts that arrived."""
    left_before: bool = False
    """Whether an earlier incarnation may have sent a part without recording it."""
    preview: Preview | None = None
    preview_taken: bool = False

    @classmethod
    def of(cls, row: OutboxRow) -> "PendingDelivery":
        return cls(row, row.attempts, _decode(row.messages), left_before=row.status == "started")


@dataclass(slots=True)
class Counts:
    """Delivery outcomes since the start."""

    sent: int = 0
    failed: int = 0
    unknown: int = 0
    retried: int = 0


class Sender:
    """Sends single messages. The caller decides the order."""

    def __init__(
        self,
        channels: Channels,
        log: DeliveryLog,
        previews: Previews,
        contents: Contents,
        clock: Clock,
        statuses: ChannelStatuses,
    ) -> None:
        self._channels = channels
        self._log = log
        self._previews = previews
        self._contents = contents
        self._clock = clock
        self._statuses = statuses
        self.counts = Counts()

    async def deliver(self, pending: PendingDelivery) -> float | None:
        """Try to send a message. Returns the time before the next try, or `None` when the delivery has ended."""
        row = pending.row
        if self._clock.now_ms() - row.created_ms > DELIVERY_AGE_S * 1000:
            over = self._doubt if pending.left_before else self._fail
            return await over(pending, "the message waited too long")
        channel = self._channels.sender(row.workspace, row.channel)
        if channel is None:
            if self._channels.is_off(row.workspace, row.channel):
                return _OFF_S
            return await self._fail(pending, f"there is no channel {row.channel} that sends")
        if pending.left_before and channel.abilities.dedupe == "none":
            return await self._doubt(pending, "the host ended while it was being sent")
        try:
            content = await self._contents.of(row, channel)
        except HostError as error:
            return _waits_for_store(row, error)
        if content is None:
            return await self._fail(pending, "the message was deleted by retention")
        if content.failed is not None or content.operation != "message":
            pending.preview_taken = True  # only a message has a preview
        if content.operation == "interaction_update" and not content.text:
            await self._log.sent(row, (), None)  # there is nothing to update
            return None
        sizes = [size for size in (row.max_message_size, channel.abilities.max_message_size) if size is not None]
        empty = [""] if content.contents or content.artifacts else []
        whole = not sizes or content.card is not None
        parts = split(content.text, None if whole else min(sizes)) or empty
        if not parts:
            return await self._fail(pending, "the message has no content that can be sent")
        await self._take_preview(pending)
        try:
            return await self._send_parts(pending, channel, parts, content)
        except HostError as error:  # the send could not be recorded, so nothing was sent
            return _waits_for_store(row, error)

    async def _send_parts(
        self, pending: PendingDelivery, channel: Channel, parts: list[str], content: Content
    ) -> float | None:
        row, native = pending.row, channel.abilities.dedupe == "native"
        edit_of = content.edit_of
        if not pending.messages and edit_of is None:
            found = await self._previewed(pending, channel, parts[0])
            if isinstance(found, NotDelivered | DeliveryUnknown):
                return await self._defer(
                    pending, found.reason, found.retry_after_s if isinstance(found, NotDelivered) else None
                )
            edit_of = found
        while (part := len(pending.messages)) < len(parts):
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
                contents=content.contents if last else (),
                artifacts=content.artifacts if last else (),
                operation=content.operation,
                card=content.card,
                visible_to=content.visible_to,
            )
            outcome = await channel.send(outgoing)
            kill_point("delivery.after_send")
            match outcome:
                case Delivered(message):
                    pending.messages.append(message or "")
                    if not last:
                        await self._log.shown(row, pending.messages)
                case DeliveryUnknown(reason) if not native and edits is None:
                    return await self._doubt(pending, reason)
                case DeliveryUnknown(reason):  # a retry is safe: the same key, or an edit to the same text
                    return await self._defer(pending, reason, None)
                case NotDelivered(reason, retryable, retry_after_s):
                    if edits is not None and not retryable:  # the preview is gone, so a new message is sent
                        edit_of = None
                        continue
                    if not retryable:
                        await self._degrade(row, reason)
                        return await self._fail(pending, reason)
                    return await self._defer(pending, reason, retry_after_s)
        await self._statuses.arrived(row.workspace, row.channel)
        await self._log.sent(row, pending.messages, None if pending.preview is None else pending.preview.delivery_id)
        self.counts.sent += 1
        return None

    # --- preview ---

    async def _take_preview(self, pending: PendingDelivery) -> None:
        if not pending.preview_taken:
            pending.preview_taken = True
            pending.preview = await self._previews.take(pending.row.run_id, pending.row.message_key)

    async def _previewed(
        self, pending: PendingDelivery, channel: Channel, text: str
    ) -> str | NotDelivered | DeliveryUnknown | None:
        """The channel's id of the preview to edit, or the outcome that prevents knowing it."""
        preview, row = pending.preview, pending.row
        if preview is None or preview.message is not None:
            return None if preview is None else preview.message
        if channel.abilities.dedupe == "native":  # sending again under the same key returns the id of the preview
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
        reason = "the channel did not confirm the preview"
        await self._log.unknown(row.workspace, preview.delivery_id, row.run_id, reason)
        pending.preview = None
        return None

    # --- outcomes ---

    async def _degrade(self, row: OutboxRow, reason: str) -> None:
        """Note that the channel fails, unless it was deleted meanwhile."""
        place = row.workspace, row.channel
        if self._channels.sender(*place) is not None or self._channels.is_off(*place):
            await self._statuses.failed(*place, reason)

    async def _defer(self, pending: PendingDelivery, reason: str, retry_after_s: float | None) -> float | None:
        pending.attempts += 1
        await self._degrade(pending.row, reason)
        wait_s = wait_before(pending.attempts, retry_after_s)
        if wait_s is None:
            return await self._fail(pending, f"{reason}; gave up after {pending.attempts} attempts")
        self.counts.retried += 1
        due_ms = self._clock.now_ms() + round(wait_s * 1000)
        await self._log.deferred(pending.row, pending.attempts, due_ms, reason)
        return wait_s

    async def _fail(self, pending: PendingDelivery, reason: str) -> None:
        row = pending.row
        _log.warning("a message was not delivered", delivery=row.delivery_id, channel=row.channel, problem=reason)
        await self._log.failed(row.workspace, row.delivery_id, row.run_id, reason)
        await self._forget_preview(pending, reason)
        self.counts.failed += 1

    async def _doubt(self, pending: PendingDelivery, reason: str) -> None:
        row = pending.row
        _log.warning("whether a message arrived is unknown", delivery=row.delivery_id, channel=row.channel)
        await self._log.unknown(row.workspace, row.delivery_id, row.run_id, reason)
        await self._forget_preview(pending, reason)
        self.counts.unknown += 1

    async def _forget_preview(self, pending: PendingDelivery, reason: str) -> None:
        await self._take_preview(pending)
        if pending.preview is not None:
            await self._log.failed(pending.row.workspace, pending.preview.delivery_id, pending.row.run_id, reason)


def _waits_for_store(row: OutboxRow, error: HostError) -> float:
    _log.warning("a message waits for the store", delivery=row.delivery_id, problem=error.message)
    return DELIVERY_WAIT_S

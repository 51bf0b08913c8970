"""Previews: messages that are sent while the runner writes them, and edited at the rate that the channel allows.

A preview is best effort. It is in the outbox before its first send, so that the `Sender` finds it even after a crash
and turns it into the complete message.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import structlog

from bollard.host.channels.channel import Channel, Delivered, DeliveryUnknown, NotDelivered, Outgoing
from bollard.host.channels.content_filter import FOUND_CHARACTERS
from bollard.host.channels.limits import LONG_TEXT_CHARACTERS
from bollard.host.channels.outgoing_filter import screened
from bollard.host.channels.registry import Channels
from bollard.host.delivery.delivery_log import DeliveryLog
from bollard.host.delivery.text_parts import split
from bollard.host.errors import HostError
from bollard.host.log.records import DeliverTo, RunFacts
from bollard.host.store.rows import OutboxRow

_log = structlog.get_logger("bollard.delivery")
_decode = msgspec.json.Decoder().decode
IsBusy = Callable[[str, str, str], bool]
"""Whether messages wait for this workspace, channel and target."""


@dataclass(slots=True)
class Preview:
    """The preview of one incomplete message."""

    delivery_id: str
    message: str | None = None
    """The channel's id of the preview. `None` while it is unknown whether the preview arrived."""
    left: bool = False
    """Whether the preview may have been sent."""
    text: str = ""
    edits: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the message is complete. No more edits are sent."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        return self.ended.is_set()

    def end(self) -> None:
        self.ended.set()
        self.changed.set()

    async def pause(self, seconds: float) -> None:
        """Sleep, but not beyond the end of the preview, because the sender waits for it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.ended.wait()


class Previews:
    """The open previews of all runs."""

    def __init__(self, channels: Channels, log: DeliveryLog, is_busy: IsBusy) -> None:
        self._channels = channels
        self._log = log
        self._is_busy = is_busy
        self._open: dict[tuple[str, str], deque[Preview]] = {}
        """By run and message key, oldest first."""
        self._made: dict[str, int] = {}

    # --- open previews ---

    def add(self, facts: RunFacts, goes_to: DeliverTo, message_key: str, text: str) -> None:
        """Add text to the preview of a message."""
        channel = self._channels.sender(facts.workspace, goes_to.channel)
        if channel is None or not channel.abilities.supports_streaming:
            return
        queue = self._open.setdefault((facts.run_id, message_key), deque())
        if not queue or queue[-1].over:
            number = self._made[facts.run_id] = self._made.get(facts.run_id, 0) + 1
            queue.append(Preview(f"{facts.run_id}.p{number}"))
        preview = queue[-1]
        preview.text += text
        preview.changed.set()
        if preview.task is None:
            preview.task = asyncio.create_task(self._show(preview, facts, goes_to, message_key, channel))

    def whole(self, run_id: str, message_key: str) -> None:
        """End the preview of a complete message. Later text with this key belongs to another message."""
        for preview in self._open.get((run_id, message_key), ()):
            preview.end()

    async def _show(
        self, preview: Preview, facts: RunFacts, goes_to: DeliverTo, message_key: str, channel: Channel
    ) -> None:
        pause_s = 1 / channel.abilities.edits_per_s
        await preview.pause(pause_s)  # most messages are complete by then and need no preview
        while not preview.over and not preview.text.strip():
            preview.changed.clear()
            await preview.changed.wait()
        if preview.over or self._is_busy(facts.workspace, goes_to.channel, goes_to.target):
            return  # complete, or an earlier message has not arrived
        try:
            await self._log.begun(preview.delivery_id, facts, goes_to, message_key)
        except HostError as error:
            _log.warning("a preview could not be recorded and is not sent", run=facts.run_id, problem=error.message)
            return
        preview.left = True
        shown = await _first_part(preview.text, goes_to, channel)
        outgoing = _outgoing(preview, facts, goes_to, shown)
        match await channel.send(outgoing):
            case Delivered(message) if message is not None:
                preview.message = message
                await self._log.previewed(preview.delivery_id, facts, message)
            case Delivered():  # it cannot be edited, so the complete message is sent separately
                reason = "the channel returned no message id to edit"
                await self._log.failed(facts.workspace, preview.delivery_id, facts.run_id, reason)
                preview.left = False
                return
            case NotDelivered(reason):
                await self._log.failed(facts.workspace, preview.delivery_id, facts.run_id, reason)
                preview.left = False
                return
            case DeliveryUnknown():
                return  # the sender finds out, if the channel allows it
        await self._edit(preview, facts, goes_to, channel, shown, pause_s)

    async def _edit(
        self, preview: Preview, facts: RunFacts, goes_to: DeliverTo, channel: Channel, shown: str, pause_s: float
    ) -> None:
        """Send all text since the last edit as one edit."""
        while not preview.over:
            await preview.pause(pause_s)
            await preview.changed.wait()
            preview.changed.clear()
            text = await _first_part(preview.text, goes_to, channel)
            if preview.over or text == shown:
                continue
            shown = text
            outcome = await channel.send(_outgoing(preview, facts, goes_to, text, edit_of=preview.message))
            if isinstance(outcome, NotDelivered):
                if not outcome.retryable:
                    return
                await preview.pause(outcome.retry_after_s or pause_s)

    # --- complete messages ---

    async def take(self, run_id: str, message_key: str) -> Preview | None:
        """Remove and return the oldest preview with this key, after its last edit has ended."""
        queue = self._open.get((run_id, message_key))
        if not queue:
            return None
        preview = queue.popleft()
        if not queue:
            del self._open[run_id, message_key]
        await self._stop(preview)
        return preview if preview.left else None

    def knows(self, row: OutboxRow) -> bool:
        """Whether this host started previews of the run."""
        return row.run_id in self._made

    def restore(self, row: OutboxRow) -> None:
        """Add a preview that an earlier incarnation left open."""
        messages: list[str] = _decode(row.messages)
        preview = Preview(row.delivery_id, message=messages[0] if messages else None, left=True)
        preview.end()
        self._open.setdefault((row.run_id, row.message_key), deque()).append(preview)

    async def close_left(self, run_id: str, workspace: str) -> None:
        """Close the remaining previews of a run that is over. Their messages will never be complete."""
        self._made.pop(run_id, None)
        for key in [key for key in self._open if key[0] == run_id]:
            for preview in self._open.pop(key):
                await self._stop(preview)
                if preview.left:
                    reason = "the message was never completed"
                    await self._log.failed(workspace, preview.delivery_id, run_id, reason)

    @staticmethod
    async def _stop(preview: Preview) -> None:
        """End a preview and wait for its current edit, which must not arrive after the complete message."""
        preview.end()
        if preview.task is not None:
            await asyncio.wait({preview.task})

    async def close(self) -> None:
        tasks = [each.task for queue in self._open.values() for each in queue if each.task is not None]
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


async def _first_part(text: str, goes_to: DeliverTo, channel: Channel) -> str:
    """The text that fits into one message. The filter also sees the end of a word that does not fit; a long text is
    filtered in a thread."""
    sizes = [each for each in (goes_to.max_message_size, channel.abilities.max_message_size) if each is not None]
    size = min(sizes) if sizes else None
    seen = text if size is None else text[: size + FOUND_CHARACTERS]
    is_long = len(seen) > LONG_TEXT_CHARACTERS
    found = await asyncio.to_thread(screened, channel, seen) if is_long else screened(channel, seen)
    parts = split(found.text, size)
    return parts[0] if parts else found.text


def _outgoing(preview: Preview, facts: RunFacts, goes_to: DeliverTo, text: str, edit_of: str | None = None) -> Outgoing:
    preview.edits += edit_of is not None
    return Outgoing(
        key=preview.delivery_id if edit_of is None else f"{preview.delivery_id}.e{preview.edits}",
        target=goes_to.target,
        text=text,
        run_id=facts.run_id,
        event_id=facts.event_id,
        edit_of=edit_of,
        final=False,
    )

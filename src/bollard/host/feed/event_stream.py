"""The events of a workspace as a stream: those after a cursor, then new ones as they come, each from the disk."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec

from bollard.host.errors import StorageUnavailable
from bollard.host.feed.event_reader import EventReader
from bollard.host.feed.feed_event import FeedEvent, Selection
from bollard.host.limits import FEED_STREAM_PAGE, KEEP_ALIVE_S, STREAM_PAGES_AT_ONCE
from bollard.host.log.journal import Journal
from bollard.host.runs.hub import StreamRecord

_EPOCH: Final = 1
"""The log has one order over all restarts, so the cursor of a stream has one epoch."""
_UNNAMED: Final = "event"
_encode: Final = msgspec.json.Encoder().encode

Sees = Callable[[FeedEvent], Awaitable[bool]]


class EventStreams:
    """Streams the events of this host, or the changes of its runs, from a reader of the log."""

    def __init__(self, reader: EventReader, journal: Journal) -> None:
        self._reader = reader
        self._watch = journal.watch
        self._readers: set[asyncio.Event] = set()
        self._pages = asyncio.Semaphore(STREAM_PAGES_AT_ONCE)
        self._closing = False

    async def read(
        self, workspace: str, after: int | None, selection: Selection, sees: Sees
    ) -> AsyncGenerator[list[StreamRecord]]:
        """Batches of events until the reader leaves or the host stops. Without `after` only events after the first
        batch come. An empty batch is a keep-alive. A `gap` stands for events that the reader cannot get."""
        with self._watch.follow(workspace, selection.records) as woken:
            self._readers.add(woken)
            try:
                newest = await asyncio.to_thread(self._reader.newest)
                position = newest if after is None else after
                if position > newest:  # the store was restored, or the cursor is of another host
                    yield [gap(newest + 1, position, "unknown")]
                    position = newest
                yield []  # the reader may cause its first event now
                while not self._closing:
                    woken.clear()
                    async with self._pages:
                        page = await asyncio.to_thread(
                            self._reader.page, workspace, position, selection, FEED_STREAM_PAGE
                        )
                    if page.deleted is not None:
                        yield [gap(*page.deleted, "retention")]
                    if batch := [_record(event) for event in page.events if await sees(event)]:
                        yield batch
                    position = page.read_to
                    if not page.more and not woken.is_set():
                        with suppress(TimeoutError):
                            async with asyncio.timeout(KEEP_ALIVE_S):
                                await woken.wait()
                        if not woken.is_set():
                            yield []
                yield [gap(position + 1, None, "closing")]
            except StorageUnavailable:
                yield [gap((after or 0) + 1, None, "closing" if self._closing else "unavailable")]
            finally:
                self._readers.discard(woken)

    def close(self) -> None:
        """The host stops: each reader gets a gap and resumes later."""
        self._closing = True
        for woken in self._readers:
            woken.set()


def gap(first: int, last: int | None, reason: str) -> StreamRecord:
    """Stands for events that a reader cannot get."""
    body = _encode({"type": "gap", "data": {"first": first, "last": last, "reason": reason}})
    return StreamRecord(_EPOCH, last or first, "gap", body)


def _record(event: FeedEvent) -> StreamRecord:
    # A sender chooses the type; a line break in it would be another field of the stream.
    name = event.type if event.type.isprintable() and event.type != "gap" else _UNNAMED
    return StreamRecord(_EPOCH, event.position, name, _encode(event.to_wire()))

"""Shows live records to readers. Each reader has a bounded buffer; one that falls behind is cut with a cursor.

The hub keeps nothing: what a reader missed it reads from the log. Publishing never waits.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

import msgspec

from bollard.host.limits import SUBSCRIBER_BYTES, SUBSCRIBER_FRAMES

__all__ = ["Hub", "StreamRecord", "Subscription"]


class StreamRecord(msgspec.Struct, frozen=True, gc=False):
    """One record as a stream carries it: where it stands, and the whole record as JSON."""

    epoch: int
    seq: int
    type: str
    json: bytes


class Subscription:
    """One reader of one run."""

    def __init__(self, hub: "Hub", run_id: str) -> None:
        self._hub = hub
        self._run_id = run_id
        self._records: deque[StreamRecord] = deque()
        self._bytes = 0
        self._came: asyncio.Future[None] | None = None
        self.behind = False
        """Whether the buffer overflowed: what is in it is still good, then the reader must resume from the log."""
        self.ended = False
        self.closing = False
        """Whether the host stops, and the run goes on without it."""

    @property
    def over(self) -> bool:
        """Whether nothing will come any more."""
        return self.behind or self.ended or self.closing

    def offer(self, records: Sequence[StreamRecord]) -> None:
        """Called by the hub."""
        if self.over:
            return
        for record in records:
            self._bytes += len(record.json)
            if len(self._records) >= SUBSCRIBER_FRAMES or self._bytes > SUBSCRIBER_BYTES:
                self.behind = True
                self._hub.cut += 1
                break
            self._records.append(record)
        self._wake()

    def close_soon(self) -> None:
        """The host stops: what is in the buffer is still good, then the reader must resume elsewhere, or later."""
        self.closing = True
        self._wake()

    def end(self) -> None:
        """No more will come: the run is over."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(None)

    async def take(self, idle_s: float) -> list[StreamRecord]:
        """Everything that is ready; empty when nothing came for `idle_s`, or nothing will come any more."""
        if not self._records and not self.over:
            loop = asyncio.get_running_loop()
            self._came = loop.create_future()
            timer = loop.call_later(idle_s, self._wake)
            try:
                await self._came
            finally:
                timer.cancel()
        records, self._bytes = list(self._records), 0
        self._records.clear()
        return records

    def close(self) -> None:
        self._hub.leave(self._run_id, self)


class Hub:
    """Who reads which run."""

    def __init__(self) -> None:
        self._readers: dict[str, dict[Subscription, None]] = {}
        """In the order they came, so that the same history is the same twice."""
        self.cut = 0
        """Readers that fell behind."""

    @property
    def readers(self) -> int:
        return sum(len(found) for found in self._readers.values())

    def subscribe(self, run_id: str) -> Subscription:
        subscription = Subscription(self, run_id)
        self._readers.setdefault(run_id, {})[subscription] = None
        return subscription

    def leave(self, run_id: str, subscription: Subscription) -> None:
        readers = self._readers.get(run_id)
        if readers is not None:
            readers.pop(subscription, None)
            if not readers:
                del self._readers[run_id]

    def publish(self, run_id: str, records: Sequence[StreamRecord]) -> None:
        for subscription in self._readers.get(run_id, ()):
            subscription.offer(records)

    def end(self, run_id: str) -> None:
        for subscription in self._readers.pop(run_id, ()):
            subscription.end()

    def close(self) -> None:
        """The host stops: whoever still reads is told to resume."""
        for readers in self._readers.values():
            for subscription in readers:
                subscription.close_soon()

"""The stream of one run from any cursor: committed records, then published uncommitted ones, then live records.

A reader gets every record after its cursor, or an explicit `gap` that names the missing ones.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from heapq import merge

import msgspec

from bollard.host.errors import InvalidRequest, StorageUnavailable
from bollard.host.limits import DELTA_PAGE_ROWS, KEEP_ALIVE_S, REPLAY_PAGE, STREAM_PAGE_BYTES, STREAM_PAGES_AT_ONCE
from bollard.host.runs.hub import (
    Hub,
    StreamRecord,
    Subscription,
    delta_records_from_row,
    gap_record,
    stream_record_from_row,
)
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.rows import DeltaRow, RecordRow
from bollard.host.store.store import Store
from bollard.protocol import TERMINAL_STATUSES


class StreamPosition(msgspec.Struct, frozen=True):
    """The cursor of a reader: `epoch.seq`, exclusive."""

    epoch: int
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.seq}"


def parse_place(text: str) -> StreamPosition:
    """Parse a `Last-Event-ID`. Raises `InvalidRequest`."""
    epoch, dot, seq = text.partition(".")
    if not (dot and epoch.isascii() and epoch.isdigit() and seq.isascii() and seq.isdigit()) or len(text) > 16:
        message, hint = "the cursor does not have the form epoch.seq", "send the last id of the stream"
        raise InvalidRequest(message, reason="stream_cursor", hint=hint, field="id")
    return StreamPosition(int(epoch), int(seq))


class _HostStops(Exception):
    """The host stops before the reader has all pages."""


class RunReader:
    """Streams the runs of this host."""

    def __init__(
        self, store: Store, hub: Hub, live: Mapping[str, LiveRun], recovered: asyncio.Event | None = None
    ) -> None:
        self._store = store
        self._hub = hub
        self._live = live
        self._recovered = recovered
        """Set when all runs of an earlier incarnation have a new owner or have ended."""
        self._pages = asyncio.Semaphore(STREAM_PAGES_AT_ONCE)

    async def read(self, run_id: str, after: StreamPosition | None) -> AsyncGenerator[list[StreamRecord]]:
        """Batches of records until the run ends. If the reader falls behind, the last batch is a `gap`. The caller owns
        each batch and may empty it."""
        # Before that, a cursor may name records that were published and never committed.
        while self._recovered is not None and not self._recovered.is_set() and run_id not in self._live:
            try:
                await asyncio.wait_for(self._recovered.wait(), KEEP_ALIVE_S)
            except TimeoutError:
                yield []
        subscription = self._hub.subscribe(run_id)
        live = self._live.get(run_id)
        # Read in the same turn of the loop as the subscription, so that no record is lost in between.
        tail = live.uncommitted() if live is not None else []
        last = after.seq if after is not None else 0
        try:
            if after is not None:
                last, gap = await self._resume(run_id, after, tail[-1].seq if tail else 0)
                if gap is not None:
                    yield [gap]
            ended = False
            async for batch in self._replay(run_id, last, tail[0].seq if tail else None, subscription):
                last, ended = batch[-1].seq, batch[-1].type == "run.ended"
                yield batch
            if ended:
                return
            if fresh := [record for record in tail if record.seq > last]:
                last = fresh[-1].seq
                yield fresh
            if not await self._is_unfinished(run_id):
                # It may have ended after the last page was read.
                async for batch in self._replay(run_id, last, None, subscription):
                    last = batch[-1].seq
                    yield batch
                return
            async for batch in self.follow(run_id, subscription, last):
                yield batch
        except (StorageUnavailable, _HostStops):  # a host that stops closes its store too
            yield [gap_record(run_id, 0, last + 1, None, "closing" if subscription.closing else "unavailable")]
        finally:
            subscription.close()

    @staticmethod
    async def follow(
        run_id: str, subscription: Subscription, last: int, *, gather_s: float = 0.0
    ) -> AsyncGenerator[list[StreamRecord]]:
        """Live records after `last` while the reader keeps up. An empty batch is a keep-alive.

        A first batch without output of the runner waits up to `gather_s` for more, to save a write.
        """
        try:
            while True:
                records = await subscription.take(KEEP_ALIVE_S)
                if gather_s and not subscription.over and all(map(_is_of_host, records)):
                    records += await subscription.take(gather_s)
                gather_s = 0.0
                if records and records[0].seq <= last:
                    records = [record for record in records if record.seq > last]
                silent = not records
                if records:
                    last, ended = records[-1].seq, records[-1].type == "run.ended"
                    yield records
                    if ended:
                        return
                # An end without `run.ended`: another owner ended the run, and published records were discarded.
                if subscription.behind or subscription.ended:
                    yield [gap_record(run_id, 0, last + 1, None, "behind")]
                    return
                if subscription.closing:
                    yield [gap_record(run_id, 0, last + 1, None, "closing")]
                    return
                if silent:
                    yield []
        finally:
            subscription.close()

    async def _is_unfinished(self, run_id: str) -> bool:
        row = await asyncio.to_thread(self._store.run, run_id)
        return row is not None and row.status not in TERMINAL_STATUSES

    async def _resume(self, run_id: str, after: StreamPosition, shown: int) -> tuple[int, StreamRecord | None]:
        """The number to continue from, and a gap if the cursor names missing records. A cursor of an old epoch
        may exceed what that epoch committed; one of the current epoch may not exceed what is on disk or `shown`."""
        row = await asyncio.to_thread(self._store.run, run_id)
        if row is None:
            return after.seq, None
        if after.epoch > row.epoch:  # that epoch never existed
            return 0, gap_record(run_id, row.epoch, 1, after.seq, "unknown")
        newest = max(shown if after.epoch == row.epoch else 0, await asyncio.to_thread(self._newest, run_id, after))
        if after.seq <= newest:
            return after.seq, None
        reason = "uncommitted" if after.epoch < row.epoch else "unknown"
        return newest, gap_record(run_id, row.epoch, newest + 1, after.seq, reason)

    def _newest(self, run_id: str, after: StreamPosition) -> int:
        """The last number that the epoch of the cursor and earlier ones committed."""
        newest = self._store.last_seq(run_id, after.epoch)
        if after.seq <= newest:
            return newest
        # Retention may have deleted deltas. Numbers have no holes, so the next epoch starts where this one ended.
        begun = [row.seq or 0 for row in self._store.records_of_run(run_id, newest, 1)]
        begun += [row.first_seq for row in self._store.deltas_page(run_id, newest, 1, 1)]
        return min(begun) - 1 if begun else newest

    async def _replay(
        self, run_id: str, after: int, until: int | None, subscription: Subscription
    ) -> AsyncGenerator[list[StreamRecord]]:
        """Committed records after `after` in order, with a gap for each hole. A stopping host sends one more page."""
        first = after
        while True:
            async with self._pages:
                page = await asyncio.to_thread(self._page, run_id, after)
            if until is not None:
                page = [record for record in page if record.seq < until]
            if not page:
                return
            if subscription.closing and after > first:
                raise _HostStops
            batch: list[StreamRecord] = []
            for record in page:
                if record.seq > after + 1:
                    batch.append(gap_record(run_id, record.epoch, after + 1, record.seq - 1, "retention"))
                batch.append(record)
                after = record.seq
            yield batch

    def _page(self, run_id: str, after: int) -> list[StreamRecord]:
        page = self._read_page(run_id, after)
        if not page or page[-1].seq - after == len(page):
            return page
        # A commit between the two reads of a page looks like a hole. Records are committed in order, so a second read
        # sees everything up to the newest record of this page.
        newest = page[-1].seq
        return [record for record in self._read_page(run_id, after) if record.seq <= newest]

    def _read_page(self, run_id: str, after: int) -> list[StreamRecord]:
        rows = self._store.records_of_run(run_id, after, REPLAY_PAGE, STREAM_PAGE_BYTES)
        delta_rows = self._store.deltas_page(run_id, after, DELTA_PAGE_ROWS, STREAM_PAGE_BYTES)
        records = [stream_record_from_row(row) for row in rows]
        deltas = [record for row in delta_rows for record in delta_records_from_row(row, after, STREAM_PAGE_BYTES)]
        # If one of the two reads was cut off, records of the other after that point belong to the next page.
        if deltas and (len(delta_rows) == DELTA_PAGE_ROWS or _size(delta_rows) >= STREAM_PAGE_BYTES):
            records = [record for record in records if record.seq < deltas[-1].seq]
        if rows and (len(rows) == REPLAY_PAGE or _bytes_of(rows) >= STREAM_PAGE_BYTES):
            deltas = [record for record in deltas if record.seq < (rows[-1].seq or 0)]
        return list(merge(records, deltas, key=lambda record: record.seq))


def _is_of_host(record: StreamRecord) -> bool:
    """Whether the host wrote the record, not the runner."""
    return record.type.startswith(("run.", "grant."))


def _bytes_of(rows: list[RecordRow]) -> int:
    return sum(len(row.data or b"") for row in rows)


def _size(rows: list[DeltaRow]) -> int:
    return sum(len(row.spans) + len(row.body) for row in rows)

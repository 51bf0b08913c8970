"""One run as a stream, from any place: what is on disk, then what is shown and not on disk yet, then what comes.

Every reader gets exactly the records behind its cursor, or one explicit `gap` that names what it cannot get.
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
    """Where a reader stands: `epoch.seq`, exclusive."""

    epoch: int
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.seq}"


def parse_place(text: str) -> StreamPosition:
    """A `Last-Event-ID`; raises `InvalidRequest`."""
    epoch, dot, seq = text.partition(".")
    if not (dot and epoch.isascii() and epoch.isdigit() and seq.isascii() and seq.isdigit()) or len(text) > 16:
        raise InvalidRequest(
            "the cursor is not of the form epoch.seq", hint="send back the last id you got", field="id"
        )
    return StreamPosition(int(epoch), int(seq))


class _HostStops(Exception):
    """A reader would need another page, and the host is about to go."""


class RunReader:
    """Reads runs of this host."""

    def __init__(
        self, store: Store, hub: Hub, live: Mapping[str, LiveRun], recovered: asyncio.Event | None = None
    ) -> None:
        self._store = store
        self._hub = hub
        self._live = live
        self._recovered = recovered
        """Set when the runs that an earlier incarnation left have an owner or an end."""
        self._pages = asyncio.Semaphore(STREAM_PAGES_AT_ONCE)

    async def read(self, run_id: str, after: StreamPosition | None) -> AsyncGenerator[list[StreamRecord]]:
        """Batches of records until the run has ended, or until this reader fell behind (then the last is a `gap`). A
        batch belongs to whoever takes it, who may empty it."""
        # Until then a cursor may name records that were shown and never written, and nobody could say so.
        while self._recovered is not None and not self._recovered.is_set() and run_id not in self._live:
            try:
                await asyncio.wait_for(self._recovered.wait(), KEEP_ALIVE_S)
            except TimeoutError:
                yield []
        subscription = self._hub.subscribe(run_id)
        live = self._live.get(run_id)
        # Taken together with the subscription, in one turn: nothing can slip between the two.
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
            if not await self._is_unfinished(run_id):  # also where its owner has not left yet
                # It may have ended behind the last page.
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
        """What comes behind `last` while the reader keeps up. An empty batch says that nothing came for a while.

        A first batch in which the runner has not spoken yet may wait `gather_s` for company: it is about to.
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
                # One that is over without an end here was ended by somebody else, in the place of what was shown.
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
        """Where to go on. A cursor of an old epoch may lie behind what that epoch got onto the disk; one of this epoch
        must not lie behind what is on disk or was `shown`."""
        row = await asyncio.to_thread(self._store.run, run_id)
        if row is None:
            return after.seq, None
        if after.epoch > row.epoch:  # no owner of that epoch has ever been
            return 0, gap_record(run_id, row.epoch, 1, after.seq, "unknown")
        newest = max(shown if after.epoch == row.epoch else 0, await asyncio.to_thread(self._newest, run_id, after))
        if after.seq <= newest:
            return after.seq, None
        reason = "uncommitted" if after.epoch < row.epoch else "unknown"
        return newest, gap_record(run_id, row.epoch, newest + 1, after.seq, reason)

    def _newest(self, run_id: str, after: StreamPosition) -> int:
        """The last number that the cursor's epoch, and those before it, got onto the disk."""
        newest = self._store.last_seq(run_id, after.epoch)
        if after.seq <= newest:
            return newest
        # Deltas may be gone by age. Numbers have no holes, so that the next epoch began where this one had ended.
        begun = [row.seq or 0 for row in self._store.records_of_run(run_id, newest, 1)]
        begun += [row.first_seq for row in self._store.deltas_page(run_id, newest, 1, 1)]
        return min(begun) - 1 if begun else newest

    async def _replay(
        self, run_id: str, after: int, until: int | None, subscription: Subscription
    ) -> AsyncGenerator[list[StreamRecord]]:
        """What is on disk behind `after`, in order, each hole named. A host that stops gives one page more at most."""
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
        # A commit between its two reads looks like a hole. A run is written in order, so that by now everything up to
        # the newest record of this page is on disk: what is missing in a second look is missing.
        newest = page[-1].seq
        return [record for record in self._read_page(run_id, after) if record.seq <= newest]

    def _read_page(self, run_id: str, after: int) -> list[StreamRecord]:
        rows = self._store.records_of_run(run_id, after, REPLAY_PAGE, STREAM_PAGE_BYTES)
        delta_rows = self._store.deltas_page(run_id, after, DELTA_PAGE_ROWS, STREAM_PAGE_BYTES)
        records = [stream_record_from_row(row) for row in rows]
        deltas = [record for row in delta_rows for record in delta_records_from_row(row, after, STREAM_PAGE_BYTES)]
        # What lies behind the end of either belongs to the next page, unless there is no more of the other.
        if deltas and (len(delta_rows) == DELTA_PAGE_ROWS or _size(delta_rows) >= STREAM_PAGE_BYTES):
            records = [record for record in records if record.seq < deltas[-1].seq]
        if rows and (len(rows) == REPLAY_PAGE or _bytes_of(rows) >= STREAM_PAGE_BYTES):
            deltas = [record for record in deltas if record.seq < (rows[-1].seq or 0)]
        return list(merge(records, deltas, key=lambda record: record.seq))


def _is_of_host(record: StreamRecord) -> bool:
    """Whether it says how the run is, and nothing that its runner said."""
    return record.type.startswith(("run.", "grant."))


def _bytes_of(rows: list[RecordRow]) -> int:
    return sum(len(row.data or b"") for row in rows)


def _size(rows: list[DeltaRow]) -> int:
    return sum(len(row.spans) + len(row.body) for row in rows)

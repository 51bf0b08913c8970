"""Batches of one run: what arrives while a commit is under way becomes the next journal entry.

Deltas and records without effect are published before their commit. Every other record is on disk first.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from msgspec.structs import replace

from bollard.host.errors import HostError
from bollard.host.log.entries import CommitResult, Committed, Entry, ExpectationResult, StateExpectation
from bollard.host.log.journal import Journal, passes
from bollard.host.log.kill_points import kill_point
from bollard.host.log.records import NewRecord, with_version
from bollard.host.runs.hub import Hub, StreamRecord, delta_records, stream_record
from bollard.host.store.delta_spans import DeltaFold, Piece, extent_of, pack
from bollard.host.store.rows import DeltaRow
from bollard.protocol import limits

Landed = Callable[["ExpectationResult | None"], None]
"""Called once the batch is on disk, with the result of its expectation. Called with `None` if it never will be."""

_MET = ExpectationResult(0)


def into(future: "asyncio.Future[ExpectationResult | None]") -> Landed:
    """A callback that sets the result of this future, unless it is done."""
    return lambda result: None if future.done() else future.set_result(result)


@dataclass(slots=True)
class PendingBatch:
    """The next entry of one run."""

    records: list[NewRecord] = field(default_factory=list[NewRecord])
    rows: list[DeltaRow] = field(default_factory=list[DeltaRow])
    pieces: list[Piece] = field(default_factory=list[Piece])
    """Delta rows of the run that this commit merges into one, including rows of this batch."""
    deltas: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    delta_bytes: int = 0
    """Size of `deltas`, which will become one row."""
    texts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    blobs: list[bytes] = field(default_factory=list[bytes])
    expects: list[StateExpectation] = field(default_factory=list[StateExpectation])
    stream: list[StreamRecord] = field(default_factory=list[StreamRecord])
    published: int = 0
    """How many records of `stream` are published."""
    waiters: list[tuple[Landed, int | None]] = field(default_factory=list[tuple[Landed, int | None]])
    """Callbacks, each with the index of its expectation."""
    pressing: bool = False
    """Whether a caller waits for a record of it."""
    size: int = 0
    source_seq: int = 0
    last: bool = False
    """Whether it contains the end of the run."""

    @property
    def empty(self) -> bool:
        return not self.records and not self.rows and not self.deltas

    def add(self, record: NewRecord) -> None:
        self.records.append(record)
        self.stream.append(stream_record(record))
        self.size += len(record.data)

    def close_deltas(self, run_id: str, epoch: int, created_ms: int) -> list[tuple[str, str]]:
        """Turn the deltas into one row. Returns their texts by message."""
        deltas, self.deltas, self.delta_bytes = self.deltas, [], 0
        texts, self.texts = self.texts, []
        self.rows.append(
            DeltaRow(
                run_id=run_id,
                epoch=epoch,
                first_seq=deltas[0][0],
                last_seq=deltas[-1][0],
                created_ms=created_ms,
                spans=pack([(seq, len(payload)) for seq, payload in deltas]),
                body=b"".join(payload for _, payload in deltas),
            )
        )
        self.stream.extend(delta_records(run_id, epoch, created_ms, deltas))
        return texts

    def entry(self, run_id: str, epoch: int, *, urgent: bool) -> Entry:
        return Entry(
            records=self.records,
            deltas=self.rows,
            blobs=self.blobs,
            expects=self.expects,
            fence=(run_id, epoch),
            merge=[(run_id, *piece) for piece in self.pieces],
            size=self.size,
            urgent=urgent,
        )

    def settle(self, results: tuple[ExpectationResult, ...]) -> None:
        """The batch is on disk: adapt the stream to what was written, and call the waiters."""
        for expectation, result in zip(self.expects, results, strict=True):
            record = self.records[expectation.record]
            if result.unmet:
                self._replace(record, *expectation.otherwise)
            elif result.version:
                self._replace(record, record.type, with_version(record.data, result.version))
        for landed, index in self.waiters:
            landed(_MET if index is None else results[index])

    def _replace(self, record: NewRecord, kind: str, data: bytes) -> None:
        index = next(index for index, published in enumerate(self.stream) if published.seq == record.seq)
        self.stream[index] = stream_record(replace(record, type=kind, data=data))

    def forsake(self) -> None:
        """The batch is never written, because the run has another owner."""
        for landed, _ in self.waiters:
            landed(None)


def joined(texts: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The texts of each message, joined."""
    parts_of: dict[str, list[str]] = {}
    for message_id, text in texts:
        parts_of.setdefault(message_id, []).append(text)
    return tuple((message_id, "".join(parts)) for message_id, parts in parts_of.items())


_HOLD_S: Final = 0.02
"""How long a batch without waiters is held for more records, so that a short run takes two commits instead of three."""
_URGENT_RECORDS: Final = limits.WINDOW_RESULTS // 4
"""Records in one entry above which the commit is urgent, because the worker will soon run out of credit."""
_LIVE_TYPES: Final = frozenset({"message.delta", "run.started", "tool.call.started", "tool.call.completed"})
"""Types that are published before their commit: they have no effect and end nothing."""
_RETRY_S: Final = 1.0
"""Time before a write that the store refused is retried."""


class BatchOwner(Protocol):
    """The live run, as its writer sees it."""

    def landed(self, batch: PendingBatch) -> None:
        """The batch is on disk, and readers have seen all of it."""
        ...

    def fenced(self) -> None:
        """The run has another owner. Nothing more is written."""
        ...

    def refused(self) -> None:
        """The store refused the batch for a reason that passes. The writer retries until the store takes it."""
        ...

    def rejected(self, error: HostError) -> None:
        """The store refused the batch for good. Nothing more is written."""
        ...


class BatchWriter:
    """Writes the batches of one live run, one entry at a time, and publishes them to readers."""

    def __init__(self, run_id: str, epoch: int, journal: Journal, hub: Hub, owner: BatchOwner) -> None:
        self._run_id = run_id
        self._epoch = epoch
        self._journal = journal
        self._hub = hub
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._in_flight: PendingBatch | None = None
        self._held: asyncio.TimerHandle | None = None
        self._fold = DeltaFold()
        self._tries = 0
        self.batch = PendingBatch()
        """The records since the last entry."""

    def uncommitted(self) -> list[StreamRecord]:
        """The records that are published and not on disk yet."""
        records: list[StreamRecord] = []
        for batch in (self._in_flight, self.batch):
            if batch is not None:
                records.extend(batch.stream[: batch.published])
        return records

    def flush(self) -> None:
        """Write the batch unless a commit is under way, and publish what may be published."""
        before, batch = self._in_flight, self.batch
        self._write_soon()  # first, because the disk is slower than the readers
        self._publish_live(before, batch)

    async def written(self, *, over: bool) -> bool:
        """Wait until everything so far is on disk. Returns False if it never will be, or the run is over."""
        batch = self.batch if not self.batch.empty else self._in_flight
        if batch is None:
            return not over
        landed: asyncio.Future[ExpectationResult | None] = self._loop.create_future()
        batch.waiters.append((into(landed), None))
        batch.pressing = True
        self.flush()
        self._journal.hurry()
        return await landed is not None

    def forsake(self) -> None:
        """Drop what is not written, and call the waiters."""
        self.close()
        for batch in (self._in_flight, self.batch):
            if batch is not None:
                batch.forsake()
        self._in_flight, self.batch = None, PendingBatch()

    def close(self) -> None:
        if self._held is not None:
            self._held.cancel()
            self._held = None

    def _publish_live(self, before: PendingBatch | None, batch: PendingBatch) -> None:
        """Publish live records, up to the first one that must be on disk before."""
        if before is not None and before.published < len(before.stream):
            return
        start = batch.published
        while batch.published < len(batch.stream) and batch.stream[batch.published].type in _LIVE_TYPES:
            batch.published += 1
        if batch.published > start:
            self._hub.publish(self._run_id, batch.stream[start : batch.published])
            kill_point("run.after_publish")

    def _write_soon(self) -> None:
        """Write an urgent batch now, and any other after `_HOLD_S`."""
        if self._in_flight is not None:
            if _presses(self.batch):
                self._journal.hurry()
        elif _presses(self.batch):
            self._write()
        elif self._held is None and not self.batch.empty:
            self._held = self._loop.call_later(_HOLD_S, self._write)

    def _write(self) -> None:
        self.close()
        if self._in_flight is None and not self.batch.empty:
            self._in_flight, self.batch = self.batch, PendingBatch()
            self._in_flight.pieces = self._due(self._in_flight)
            self._append()

    def _due(self, batch: PendingBatch) -> list[Piece]:
        """ADR 0084: delta rows are merged while the run executes, so that little is left when it ends."""
        pieces = [self._fold.add(extent_of(row)) for row in batch.rows]
        if batch.last:
            pieces.append(self._fold.close())
        return [piece for piece in pieces if piece is not None]

    def _append(self) -> None:
        batch = self._in_flight
        if batch is None:
            return
        entry = batch.entry(self._run_id, self._epoch, urgent=_presses(batch))
        try:
            self._journal.append(entry, self._committed)
        except HostError as error:
            self._committed(error)

    def _committed(self, outcome: CommitResult | HostError) -> None:
        batch = self._in_flight
        if batch is None:
            return
        if isinstance(outcome, HostError):
            self._tries += 1
            if not passes(outcome, self._tries):
                self._owner.rejected(outcome)
                return
            self._loop.call_later(_RETRY_S, self._append)
            self._owner.refused()
            return
        if not isinstance(outcome, Committed):
            self._owner.fenced()  # another owner has the run
            return
        self._in_flight, self._tries = None, 0
        batch.settle(outcome.judged)
        if batch.published < len(batch.stream):
            self._hub.publish(self._run_id, batch.stream[batch.published :])
        self._owner.landed(batch)
        if not batch.last:
            self.flush()


def _presses(batch: PendingBatch) -> bool:
    """Whether a caller waits for this batch, or the worker will soon wait for credit."""
    return batch.pressing or len(batch.stream) >= _URGENT_RECORDS

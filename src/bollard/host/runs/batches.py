"""What arrived for a run since its last entry was given to the journal, in order. It becomes one entry."""

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
"""Told once the batch is on disk, with what became of the expectation it came with; `None` when it never will be."""

_MET = ExpectationResult(0)


def into(fate: "asyncio.Future[ExpectationResult | None]") -> Landed:
    """Settle a future with what one is told, unless nobody waits for it any more."""
    return lambda found: None if fate.done() else fate.set_result(found)


@dataclass(slots=True)
class PendingBatch:
    """Filled by one run, on the loop."""

    records: list[NewRecord] = field(default_factory=list[NewRecord])
    rows: list[DeltaRow] = field(default_factory=list[DeltaRow])
    pieces: list[Piece] = field(default_factory=list[Piece])
    """Delta rows of the run, those of this batch among them, that become one with its commit."""
    deltas: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    delta_bytes: int = 0
    """Of `deltas`, which will become one row."""
    texts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    blobs: list[bytes] = field(default_factory=list[bytes])
    expects: list[StateExpectation] = field(default_factory=list[StateExpectation])
    stream: list[StreamRecord] = field(default_factory=list[StreamRecord])
    shown: int = 0
    """How many of `stream` the readers have seen."""
    waiters: list[tuple[Landed, int | None]] = field(default_factory=list[tuple[Landed, int | None]])
    """Who is told, and of which expectation."""
    pressing: bool = False
    """Whether somebody waits for a record of it."""
    size: int = 0
    source_seq: int = 0
    last: bool = False
    """Whether it holds the end of the run."""

    @property
    def empty(self) -> bool:
        return not self.records and not self.rows and not self.deltas

    def add(self, record: NewRecord) -> None:
        self.records.append(record)
        self.stream.append(stream_record(record))
        self.size += len(record.data)

    def close_deltas(self, run_id: str, epoch: int, created_ms: int) -> list[tuple[str, str]]:
        """Deltas that came together become one row; returns their texts by message."""
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

    def settle(self, judged: tuple[ExpectationResult, ...]) -> None:
        """It is on disk: what readers get is what was written, and whoever waits is told."""
        for wanted, judgement in zip(self.expects, judged, strict=True):
            record = self.records[wanted.record]
            if judgement.unmet:
                self._replace(record, *wanted.otherwise)
            elif judgement.version:
                self._replace(record, record.type, with_version(record.data, judgement.version))
        for landed, index in self.waiters:
            landed(_MET if index is None else judged[index])

    def _replace(self, record: NewRecord, kind: str, data: bytes) -> None:
        place = next(index for index, shown in enumerate(self.stream) if shown.seq == record.seq)
        self.stream[place] = stream_record(replace(record, type=kind, data=data))

    def forsake(self) -> None:
        """It will never be on disk: the run has another owner."""
        for landed, _ in self.waiters:
            landed(None)


def joined(texts: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The increments of each message that came together, as one."""
    found: dict[str, list[str]] = {}
    for message_id, text in texts:
        found.setdefault(message_id, []).append(text)
    return tuple((message_id, "".join(parts)) for message_id, parts in found.items())


# Writes what arrives for one run: one entry at a time, shown to readers as soon as it may be.
#
# Deltas, and what else has no effect, are shown before their commit; everything else is on disk before anyone is told.
# It knows the journal and the readers, and nothing of what a run is.


_HOLD_S: Final = 0.02
"""Time that what nobody waits for may wait for what the worker sends next: a short run takes two commits, not three."""
_URGENT_RECORDS: Final = limits.WINDOW_RESULTS // 4
"""Deltas in one entry above which the worker will soon wait for its credit, so that the commit must not linger."""
_LIVE_TYPES: Final = frozenset({"message.delta", "run.started", "tool.call.started", "tool.call.completed"})
"""What readers may see before it is on disk: it has no effect and ends nothing."""
_RETRY_S: Final = 1.0
"""Time between two tries to write what the store refused."""


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
    """One per live run."""

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
        """What arrived since the last entry."""

    def uncommitted(self) -> list[StreamRecord]:
        """What readers have seen that is not on disk yet."""
        shown: list[StreamRecord] = []
        for batch in (self._in_flight, self.batch):
            if batch is not None:
                shown.extend(batch.stream[: batch.shown])
        return shown

    def flush(self) -> None:
        """What arrived together is complete: write it unless a commit is under way, and show what may be shown."""
        before, batch = self._in_flight, self.batch
        self._write_soon()  # first: the disk takes longer than the readers
        self._show_live(before, batch)

    async def written(self, *, over: bool) -> bool:
        """Wait until everything so far is on disk. False when it never will be, or the run is over already."""
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
        """Nothing more is written: whoever waits is told."""
        self.close()
        for batch in (self._in_flight, self.batch):
            if batch is not None:
                batch.forsake()
        self._in_flight, self.batch = None, PendingBatch()

    def close(self) -> None:
        if self._held is not None:
            self._held.cancel()
            self._held = None

    def _show_live(self, before: PendingBatch | None, batch: PendingBatch) -> None:
        """Readers see deltas at once, unless something before them must be on disk first."""
        if before is not None and before.shown < len(before.stream):
            return
        start = batch.shown
        while batch.shown < len(batch.stream) and batch.stream[batch.shown].type in _LIVE_TYPES:
            batch.shown += 1
        if batch.shown > start:
            self._hub.publish(self._run_id, batch.stream[start : batch.shown])
            kill_point("run.after_publish")

    def _write_soon(self) -> None:
        """Write what somebody waits for; what nobody waits for is held for a moment, for what comes next."""
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
        """ADR 0084: rows are folded as the run goes, so that little is left to do when it ends."""
        found = [self._fold.add(extent_of(row)) for row in batch.rows]
        if batch.last:
            found.append(self._fold.close())
        return [piece for piece in found if piece is not None]

    def _append(self) -> None:
        batch = self._in_flight
        if batch is None:
            return
        entry = batch.entry(self._run_id, self._epoch, urgent=_presses(batch))
        try:
            self._journal.append(entry, self._told)
        except HostError as error:
            self._told(error)

    def _told(self, outcome: CommitResult | HostError) -> None:
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
            self._owner.fenced()  # another owner has the run: what this one knows is worth nothing
            return
        self._in_flight, self._tries = None, 0
        batch.settle(outcome.judged)
        if batch.shown < len(batch.stream):
            self._hub.publish(self._run_id, batch.stream[batch.shown :])
        self._owner.landed(batch)
        if not batch.last:
            self.flush()


def _presses(batch: PendingBatch) -> bool:
    """Whether somebody waits for this batch: a reader for a record, or soon the worker for its credit."""
    return batch.pressing or len(batch.stream) >= _URGENT_RECORDS

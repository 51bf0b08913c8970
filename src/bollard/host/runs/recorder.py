"""The recorder of one live run: numbers its records, removes secrets, writes the records in batches and publishes them.

What arrives while a commit is under way becomes the next journal entry. Deltas and records without effect are published
before their commit; every other record is on disk first. The recorder decides nothing: it feeds every numbered record
to the run's machine.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.limits import DELTA_ROW_BYTES
from bollard.host.log.entries import CommitResult, Committed, Entry, ExpectationResult, StateExpectation
from bollard.host.log.journal import Journal, passes
from bollard.host.log.kill_points import kill_point
from bollard.host.log.records import (
    INPUT_RECORDS,
    LASTING_RECORDS,
    NO_BITS,
    NewRecord,
    RunFacts,
    encode_data,
    with_version,
)
from bollard.host.runs.hub import Hub, StreamRecord, delta_records, stream_records
from bollard.host.runs.machine import Fact, RunState
from bollard.host.runs.results import CheckedResult
from bollard.host.runs.scrubber import RunScrubber
from bollard.host.store.artifact_terms import ArtifactTerms
from bollard.host.store.delta_spans import DeltaFold, Piece, extent_of, pack
from bollard.host.store.rows import DeltaRow
from bollard.protocol import JsonObject, limits
from bollard.wire import Delta, WorkerResult

Landed = Callable[["ExpectationResult | None"], None]
"""Called once the batch is on disk, with the result of its expectation. Called with `None` if it never will be."""

_MET = ExpectationResult(0)
_HOLD_S: Final = 0.02
"""How long a batch without waiters is held for more records, so that a short run takes two commits instead of three."""
_URGENT_RECORDS: Final = limits.WINDOW_RESULTS // 4
"""Records in one entry above which the commit is urgent, because the worker will soon run out of credit."""
_LIVE_TYPES: Final = frozenset({"message.delta", "run.started", "tool.call.started", "tool.call.completed"})
"""Types that are published before their commit: they have no effect and end nothing."""
_RETRY_S: Final = 1.0
"""Time before a write that the store refused is retried."""
_encode: Final = msgspec.json.Encoder().encode


def into(future: "asyncio.Future[ExpectationResult | None]") -> Landed:
    """A callback that sets the result of this future, unless it is done."""
    return lambda result: None if future.done() else future.set_result(result)


class PendingBatch(msgspec.Struct):
    """The next entry of one run."""

    records: list[NewRecord] = []
    rows: list[DeltaRow] = []
    deltas: list[tuple[int, bytes]] = []
    delta_bytes: int = 0
    """Size of `deltas`, which will become one row."""
    texts: dict[str, list[str]] = {}
    """The texts of `deltas`, by message."""
    blobs: list[bytes] = []
    expects: list[StateExpectation] = []
    stream: list[StreamRecord] = []
    published: int = 0
    """How many records of `stream` are published."""
    waiters: list[tuple[Landed, int | None]] = []
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

    @property
    def urgent(self) -> bool:
        """Whether a caller waits for this batch, or the worker will soon wait for credit."""
        return self.pressing or len(self.stream) >= _URGENT_RECORDS

    def settle(self, results: tuple[ExpectationResult, ...]) -> None:
        """The batch is on disk: adapt the stream to the written records, and call the waiters."""
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
        self.stream[index : index + 1] = stream_records([replace(record, type=kind, data=data)])


class RecordedRun(Protocol):
    """The live run, as its recorder sees it."""

    facts: RunFacts
    epoch: int
    state: RunState
    flow: int

    def step(self, *facts: Fact) -> None:
        """Records have their numbers and are in a batch."""
        ...

    def spoke(self) -> None:
        """Text of the runner is about to be published."""
        ...

    def landed(self, batch: PendingBatch) -> None:
        """The batch is on disk, and readers have seen all of it."""
        ...

    def fenced(self) -> None:
        """The run has another owner. Nothing more is written."""
        ...

    def refused(self) -> None:
        """The store refused the batch for a reason that passes. The recorder retries until the store takes it."""
        ...

    def rejected(self, error: HostError) -> None:
        """The store refused the batch for good. Nothing more is written."""
        ...


class RunRecorder:
    """Writes the records of one live run, one journal entry at a time."""

    def __init__(
        self,
        run: RecordedRun,
        seq: int,
        scrub: RunScrubber,
        *,
        journal: Journal,
        hub: Hub,
        clock: Clock,
        terms: ArtifactTerms,
    ) -> None:
        self._run = run
        self._run_id = run.facts.run_id
        self._scrub = scrub
        self._journal = journal
        self._hub = hub
        self._clock = clock
        self._terms = terms
        self._loop = asyncio.get_running_loop()
        self._in_flight: PendingBatch | None = None
        self._merges: list[Piece] = []
        """Delta rows of the run that the commit in flight merges into one, including rows of its batch."""
        self._held: asyncio.TimerHandle | None = None
        self._fold = DeltaFold()
        self._tries = 0
        self.batch = PendingBatch()
        """The records since the last entry."""
        self.seq = seq
        """The number of the newest record."""
        self.bytes = 0
        """Bytes recorded so far: deltas, records, and the contents that came with them."""

    def withholds(self, content: bytes) -> bool:
        """Whether the content contains a secret of the workspace."""
        return self._scrub.secrets.active and self._scrub.holds(content)

    @property
    def secret_bytes(self) -> int:
        """The length of the longest secret, or 0."""
        return self._scrub.longest_bytes if self._scrub.secrets.active else 0

    # --- deltas ---

    def delta(self, delta: Delta, size: int) -> None:
        """Add a delta from its compact wire form."""
        message_id = delta.data.message_id
        name = message_id if isinstance(message_id, str) else ""
        chunk = delta.data.chunk
        if self._scrub.secrets.active:
            chunk.content = self._scrub.text(name, chunk.content)
        self.add_delta(name, chunk.content, _encode(delta.data), size)
        self.batch.source_seq = delta.sequence

    def scrubbed(self, result: WorkerResult) -> WorkerResult:
        """Scrub the result if it is a delta. A result that completes a message releases the held-back texts."""
        if not self._scrub.secrets.active:
            return result
        if self._scrub.completes(result.type):
            self.close_texts()
        return self._scrub.delta(result) if result.type == "message.delta" else result

    def close_texts(self) -> None:
        """Add the texts that were held back."""
        for message_id, text, data in self._scrub.rest():
            self.add_delta(message_id, text, data, len(data))

    def add_delta(self, message_id: str, text: str, data: bytes, size: int) -> None:
        batch = self.batch
        self.seq += 1
        batch.deltas.append((self.seq, data))
        batch.texts.setdefault(message_id, []).append(text)
        batch.size += size
        batch.delta_bytes += len(data)
        self.bytes += len(data)
        if batch.delta_bytes >= DELTA_ROW_BYTES:
            self.close_deltas()

    def close_deltas(self) -> None:
        """Turn the collected deltas into one row and one step of the machine."""
        batch = self.batch
        if not batch.deltas:
            return
        self._run.spoke()
        epoch, created_ms = self._run.epoch, self._clock.now_ms()
        deltas, batch.deltas, batch.delta_bytes = batch.deltas, [], 0
        texts, batch.texts = batch.texts, {}
        batch.rows.append(
            DeltaRow(
                run_id=self._run_id,
                epoch=epoch,
                first_seq=deltas[0][0],
                last_seq=deltas[-1][0],
                created_ms=created_ms,
                spans=pack([(seq, len(payload)) for seq, payload in deltas]),
                body=b"".join([payload for _, payload in deltas]),
            )
        )
        batch.stream.extend(delta_records(self._run_id, epoch, created_ms, deltas))
        joined = tuple((message_id, "".join(parts)) for message_id, parts in texts.items())
        self._run.step(Fact("message.delta", {}, self.seq, joined))

    # --- records ---

    def observe(
        self, kind: str, data: JsonObject, expects: StateExpectation | None = None, *, pressing: bool = True
    ) -> None:
        """Add a record of the host itself."""
        self.add(_observed(kind, data), None, expects, pressing=pressing)

    def add(
        self,
        judged: CheckedResult,
        source_seq: int | None,
        expects: StateExpectation | None = None,
        *,
        pressing: bool = True,
    ) -> None:
        """Add a record that is not a delta."""
        self.close_deltas()
        created_ms, batch = self._clock.now_ms(), self.batch
        batch.pressing = batch.pressing or pressing
        if expects is not None:
            batch.expects.append(replace(expects, record=len(batch.records), now_ms=created_ms))
        fact = self._numbered(judged, source_seq, created_ms)
        batch.stream.extend(stream_records(batch.records[-1:]))
        self._run.step(fact)

    def add_last(self, records: Sequence[tuple[str, JsonObject]]) -> None:
        """Add the records that end the run, and write them. Nothing follows them."""
        self.close_deltas()
        created_ms = self._clock.now_ms()
        facts = [self._numbered(_observed(kind, data), None, created_ms) for kind, data in records]
        self.batch.stream.extend(stream_records(self.batch.records[-len(facts) :]))
        self.batch.pressing = self.batch.last = True
        self._run.step(*facts)
        self.flush()

    def _numbered(self, judged: CheckedResult, source_seq: int | None, created_ms: int) -> Fact:
        """Number a record and add it to the batch."""
        kind, fact, data, flow = judged.type, judged.fact, judged.data, self._run.flow
        # Projections are rebuilt from records, so the expiry must be in there.
        if kind == "artifact.created" and (expires_ms := self._terms.expires_ms(created_ms)) is not None:
            fact = {**fact, "expires_ms": expires_ms}
            data = encode_data(fact)
        if (kind in LASTING_RECORDS and flow != NO_BITS) or (kind in INPUT_RECORDS and flow != self._run.state.flow):
            fact = {**fact, "flow": flow}
            data = encode_data(fact)
        if self._scrub.secrets.active:
            data = self._scrub.record(data, observed=judged.observed)
        self.seq += 1
        self.bytes += len(data)
        record = NewRecord(
            workspace=self._run.facts.workspace,
            type=kind,
            data=data,
            created_ms=created_ms,
            observed=judged.observed,
            run_id=self._run_id,
            seq=self.seq,
            epoch=self._run.epoch,
            source_seq=source_seq,
        )
        self.batch.records.append(record)
        self.batch.size += len(data)
        return Fact(kind, fact, self.seq)

    def attach(self, content: bytes) -> None:
        """Add a content that a record of this batch refers to."""
        self.batch.blobs.append(content)
        self.bytes += len(content)

    # --- writing ---

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
        # Writing comes first, because the disk is slower than the readers.
        if before is not None:
            if batch.urgent:
                self._journal.hurry()
        elif batch.urgent:
            self._write()
        elif self._held is None and not batch.empty:
            self._held = self._loop.call_later(_HOLD_S, self._write)
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

    def forsake(self) -> int:
        """Drop unwritten records, and call the waiters. Returns the number of dropped records."""
        self.close()
        dropped = [batch for batch in (self._in_flight, self.batch) if batch is not None]
        for batch in dropped:
            for landed, _ in batch.waiters:
                landed(None)
        self._in_flight, self.batch = None, PendingBatch()
        return sum(len(batch.records) for batch in dropped)

    def close(self) -> None:
        if self._held is not None:
            self._held.cancel()
            self._held = None

    def release(self) -> None:
        """Forget the run, which is over. The two refer to each other: without the garbage collector both would stay in
        memory."""
        del self._run

    def _publish_live(self, before: PendingBatch | None, batch: PendingBatch) -> None:
        """Publish live records, up to the first one that must be on disk before."""
        if before is not None and before.published < len(before.stream):
            return
        stream, start = batch.stream, batch.published
        end = start
        while end < len(stream) and stream[end].type in _LIVE_TYPES:
            end += 1
        if end > start:
            batch.published = end
            self._hub.publish(self._run_id, stream[start:end])
            kill_point("run.after_publish")

    def _write(self) -> None:
        self.close()
        batch = self.batch
        if self._in_flight is None and not batch.empty:
            self._in_flight, self.batch = batch, PendingBatch()
            # ADR 0084: delta rows are merged while the run executes, so that little is left when it ends.
            pieces = [self._fold.add(extent_of(row)) for row in batch.rows]
            if batch.last:
                pieces.append(self._fold.close())
            self._merges = [piece for piece in pieces if piece is not None]
            self._append()

    def _append(self) -> None:
        batch = self._in_flight
        if batch is None:
            return
        entry = Entry(
            records=batch.records,
            deltas=batch.rows,
            blobs=batch.blobs,
            expects=batch.expects,
            fence=(self._run_id, self._run.epoch),
            merge=[(self._run_id, *piece) for piece in self._merges],
            size=batch.size,
            urgent=batch.urgent,
        )
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
                self._run.rejected(outcome)
                return
            self._loop.call_later(_RETRY_S, self._append)
            self._run.refused()
            return
        if not isinstance(outcome, Committed):
            self._run.fenced()  # another owner has the run
            return
        self._in_flight, self._tries = None, 0
        batch.settle(outcome.judged)
        if batch.published < len(batch.stream):
            self._hub.publish(self._run_id, batch.stream[batch.published :])
        self._run.landed(batch)
        if not batch.last:
            self.flush()


def _observed(kind: str, data: JsonObject) -> CheckedResult:
    return CheckedResult(kind, encode_data(data), fact=data, observed=True)

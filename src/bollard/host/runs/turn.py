"""What arrived for a run since its last entry was given to the journal, in order. It becomes one entry."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from bollard.host.log.entries import Entry, Judgement, StateExpectation
from bollard.host.log.records import NewRecord, with_version
from bollard.host.runs.hub import StreamRecord
from bollard.host.runs.stream_records import delta_records, stream_record
from bollard.host.store.delta_spans import pack
from bollard.host.store.rows import DeltaRow

__all__ = ["Landed", "Turn", "into", "joined"]

Landed = Callable[["Judgement | None"], None]
"""Told once the turn is on disk, with what became of the expectation it came with; `None` when it never will be."""

_MET = Judgement(0)


def into(fate: "asyncio.Future[Judgement | None]") -> Landed:
    """Settle a future with what one is told, unless nobody waits for it any more."""
    return lambda found: None if fate.done() else fate.set_result(found)


@dataclass(slots=True)
class Turn:
    """Filled by one run, on the loop."""

    records: list[NewRecord] = field(default_factory=list[NewRecord])
    rows: list[DeltaRow] = field(default_factory=list[DeltaRow])
    deltas: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
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
        deltas, self.deltas = self.deltas, []
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

    def entry(self, run_id: str, epoch: int, *, merge: bool, urgent: bool) -> Entry:
        return Entry(
            records=self.records,
            deltas=self.rows,
            blobs=self.blobs,
            expects=self.expects,
            fence=(run_id, epoch),
            merge=run_id if merge else None,
            size=self.size,
            urgent=urgent,
        )

    def settle(self, judged: tuple[Judgement, ...]) -> None:
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

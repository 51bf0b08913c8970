"""The answers to clients, and their comparison with the store: no acknowledged or shown record may turn out untrue.

Pure: clients write it down, in memory or over HTTP, and ask at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from tests.simulation.ledger import ledger_of

from bollard.host.runs.hub import StreamRecord
from bollard.host.store.store import Store


class _GapData(msgspec.Struct):
    first: int
    last: int | None
    reason: str


class _Gap(msgspec.Struct):
    data: _GapData


_gap = msgspec.json.Decoder(_Gap).decode
_DROPPED = b'"metadata":{"data_dropped":true}'
"""Retention took the data of a record that readers had seen whole."""


@dataclass(slots=True)
class View:
    """One client's picture of one run, over all its connections."""

    run_id: str
    records: list[StreamRecord] = field(default_factory=list[StreamRecord])
    problems: list[str] = field(default_factory=list[str])
    gaps: int = 0
    ages: bool = False
    """Whether deltas may be missing because they were too old."""
    passed: int = 0
    """The last number that a gap by age named."""

    @property
    def ended(self) -> bool:
        return bool(self.records) and self.records[-1].type == "run.ended"

    @property
    def place(self) -> str | None:
        """The `Last-Event-ID` of a client."""
        return f"{self.records[-1].epoch}.{self.records[-1].seq}" if self.records else None

    def see(self, record: StreamRecord) -> None:
        """A received record: the next one, or a gap that names records to forget or lost ones."""
        if record.type == "gap":
            self._see_gap(_gap(record.json).data)
            return
        expected = max(self.records[-1].seq if self.records else 0, self.passed) + 1
        if record.seq != expected:
            self.problems.append(f"{self.run_id}: record {record.seq} came where {expected} was due")
        if self.ended:
            self.problems.append(f"{self.run_id}: record {record.seq} came after the end")
        self.records.append(record)

    def _see_gap(self, gap: _GapData) -> None:
        self.gaps += 1
        match gap.reason:
            case "uncommitted":
                self.records = [record for record in self.records if record.seq < gap.first]
            case "behind" | "closing" | "unavailable":
                pass  # the connection ends here and the client resumes
            case "retention" if self.ages and gap.last is not None:
                self.passed = gap.last
            case _:
                self.problems.append(f"{self.run_id}: {gap.first} to {gap.last} are missing: {gap.reason}")


@dataclass(slots=True)
class History:
    """All answers to clients."""

    workspace: str = "default"
    ages: bool = False
    """Whether the host drops old data."""
    accepted: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """The run of each acknowledged event with its own run, by source and id."""
    given: dict[tuple[str, str], set[str]] = field(default_factory=dict[tuple[str, str], set[str]])
    """The runs that were reported for an acknowledged event."""
    known: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """The id of each acknowledged event, with any outcome."""
    views: list[View] = field(default_factory=list[View])
    problems: list[str] = field(default_factory=list[str])

    def acknowledged(self, source: str, source_id: str, run_id: str) -> None:
        """An event was accepted, first or again: the answer must always be the same."""
        first = self.accepted.setdefault((source, source_id), run_id)
        if first != run_id:
            self.problems.append(f"event {source_id} became {first}, then {run_id}")

    def took(self, source: str, source_id: str, *, event_id: str, run_id: str | None, steered: bool = False) -> None:
        """The same of an event that may have been given to a run, or may wait: its id does not change."""
        first = self.known.setdefault((source, source_id), event_id)
        if first != event_id:
            self.problems.append(f"event {source_id} was {first}, then {event_id}")
        if steered and run_id is not None:
            self.given.setdefault((source, source_id), set()).add(run_id)
        elif run_id is not None:
            self.acknowledged(source, source_id, run_id)

    def view(self, run_id: str) -> View:
        """A new client that reads a run."""
        view = View(run_id, ages=self.ages)
        self.views.append(view)
        return view

    def disagreements(self, store: Store) -> list[str]:
        """Differences between the store and the answers, once every view has ended."""
        problems = [*self.problems]
        with store.write() as transaction:
            for (source, source_id), run_id in self.accepted.items():
                event = transaction.find_event(self.workspace, source, source_id)
                if event is None and self.ages and store.run(run_id) is not None:
                    continue  # the event was too old; its run says that it was there
                if event is None or event.run_id != run_id:
                    problems.append(f"event {source_id} was acknowledged as {run_id} and is {event} on disk")
            for (source, source_id), event_id in self.known.items():
                event = transaction.find_event(self.workspace, source, source_id)
                if event is None or event.event_id != event_id:
                    problems.append(f"event {source_id} was acknowledged as {event_id} and is {event} on disk")
        for key, run_ids in self.given.items():
            problems += [
                f"event {key[1]} was said to be in {run_id}, which never claimed it"
                for run_id in sorted(run_ids)
                if not _was_claimed(ledger_of(store, run_id), self.known[key])
            ]
        for view in self.views:
            problems.extend(view.problems)
            problems.extend(_differences(view, ledger_of(store, view.run_id)))
        return problems


def _was_claimed(ledger: Sequence[StreamRecord], event_id: str) -> bool:
    return any(record.type == "steering.queued" and event_id.encode() in record.json for record in ledger)


def _differences(view: View, ledger: Sequence[StreamRecord]) -> list[str]:
    if not view.ended:
        return [f"{view.run_id}: a reader never got its end"]
    if view.ages:
        return _differences_by_age(view, ledger)
    for seen, kept in zip(view.records, ledger, strict=False):
        if not _same(seen, kept):
            return [f"{view.run_id}: a reader saw {seen.json!r} and the ledger has {kept.json!r}"]
    if len(view.records) != len(ledger):
        return [f"{view.run_id}: a reader saw {len(view.records)} records and the ledger has {len(ledger)}"]
    return []


def _differences_by_age(view: View, ledger: Sequence[StreamRecord]) -> list[str]:
    """Only deltas go, and a reader misses nothing that is still there."""
    seen = {record.seq: record for record in view.records}
    kept = {record.seq: record for record in ledger}
    gone = [record for seq, record in seen.items() if seq not in kept and record.type != "message.delta"]
    problems = [f"{view.run_id}: a reader saw {record.json!r} and the ledger has nothing there" for record in gone]
    problems += [f"{view.run_id}: a reader never saw {seq}, which is there" for seq in kept if seq not in seen]
    both = [(seen[seq], record) for seq, record in kept.items() if seq in seen]
    problems += [
        f"{view.run_id}: a reader saw {one.json!r} and the ledger has {other.json!r}"
        for one, other in both
        if not _same(one, other)
    ]
    return problems


def _same(seen: StreamRecord, kept: StreamRecord) -> bool:
    if seen.json == kept.json:
        return True
    if (seen.epoch, seen.seq, seen.type) != (kept.epoch, kept.seq, kept.type):
        return False
    return _DROPPED in kept.json or _without_time(seen) == _without_time(kept)


def _without_time(record: StreamRecord) -> bytes:
    """Deltas that are kept together share one time; everything else of a record is the same for every reader."""
    if record.type != "message.delta":
        return record.json
    before, _, after = record.json.partition(b'"created_at":')
    return before + after.partition(b",")[2]

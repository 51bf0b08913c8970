"""Violations of the protocol leave a record each, and a flood of them leaves few."""

from collections import Counter
from typing import Any, cast

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore

from bollard.host.errors import Overloaded, StorageFull
from bollard.host.limits import VIOLATION_REPEAT_S, VIOLATION_RUNS
from bollard.host.log.entries import CommitListener, Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import data_of
from bollard.host.plugins.violations import Offender, ViolationLog
from bollard.wire import Violation

EVIL = Offender(workspace="default", plugin="acme/evil", digest="d1")


def violation(kind: str = "foreign_result", run: str | None = "run_1", ends: Any = "nothing") -> Violation:
    return Violation(kind=kind, detail="a result names no active run of this connection", run_id=run, ends=ends)


class Desk:
    """A log of violations over a journal, and what it recorded."""

    def __init__(self, store: MemoryStore, journal: Journal, clock: ManualClock) -> None:
        self._store = store
        self._journal = journal
        self.counts: Counter[tuple[str, str]] = Counter()
        self.log = ViolationLog(journal, clock, self.counts)

    async def records(self) -> list[Any]:
        await self._journal.commit(Entry())
        return [row for row in self._store.records(0, 10_000) if row.type == "worker.violation"]


@pytest.fixture
async def desk(memory_store: MemoryStore, open_journal: Any, clock: ManualClock) -> Desk:
    return Desk(memory_store, open_journal(memory_store), clock)


@pytest.mark.requirement("P05-43")
async def test_a_violation_is_recorded_at_once_with_plugin_kind_and_run(desk: Desk) -> None:
    desk.log.note(EVIL, violation())
    desk.log.note(Offender(workspace="other", plugin=None, runtime="shed"), violation("forged_answer", None, "worker"))
    one, two = await desk.records()
    assert (one.workspace, one.run_id, two.workspace) == ("default", None, "other"), "it is in the ledger of no run"
    assert data_of(one) == {
        "plugin": "acme/evil",
        "digest": "d1",
        "kind": "foreign_result",
        "run_id": "run_1",
        "ends": "nothing",
        "problem": "a result names no active run of this connection",
        "count": 1,
    }
    assert {name: data_of(two)[name] for name in ("runtime", "kind", "ends", "count")} == {
        "runtime": "shed",
        "kind": "forged_answer",
        "ends": "worker",
        "count": 1,
    }
    assert desk.counts == {("acme/evil", "foreign_result"): 1, ("shed", "forged_answer"): 1}


@pytest.mark.requirement("P05-43")
async def test_repeats_are_counted_in_one_record_when_their_time_is_over(desk: Desk, clock: ManualClock) -> None:
    for _ in range(1000):
        desk.log.note(EVIL, violation("duplicate"))
        desk.log.update()
    assert [data_of(row)["count"] for row in await desk.records()] == [1]
    clock.advance(VIOLATION_REPEAT_S)
    desk.log.update()
    assert [data_of(row)["count"] for row in await desk.records()] == [1, 999]
    clock.advance(VIOLATION_REPEAT_S)
    desk.log.update()
    desk.log.note(EVIL, violation("duplicate"))
    assert [data_of(row)["count"] for row in await desk.records()] == [1, 999, 1], "after a quiet time it is new"


@pytest.mark.requirement("P05-43")
async def test_a_flood_of_invented_runs_costs_a_bounded_number_of_records(desk: Desk) -> None:
    other = Offender(workspace="default", plugin="acme/other")
    for number in range(5000):
        desk.log.note(EVIL, violation("foreign_result", f"run_{number}" + "x" * 5000))
        desk.log.note(EVIL, violation("foreign_call", f"run_{number}", "worker"))
    desk.log.note(other, violation())
    desk.log.flush()
    records = [data_of(row) for row in await desk.records()]
    of_evil = [data for data in records if data["plugin"] == "acme/evil"]
    assert len(of_evil) <= VIOLATION_RUNS + 4
    assert sum(cast("int", data["count"]) for data in of_evil) == 10_000, "nothing is lost"
    assert max(len(str(data.get("run_id"))) for data in records) <= 128
    assert [data["run_id"] for data in records if data["plugin"] == "acme/other"] == ["run_1"]


async def test_a_repeat_with_another_consequence_is_recorded_at_once(desk: Desk) -> None:
    for ends in ("nothing", "nothing", "run"):
        desk.log.note(EVIL, violation("envelope", "run_1", ends))
    assert [(data_of(row)["ends"], data_of(row)["count"]) for row in await desk.records()] == [
        ("nothing", 1),
        ("run", 1),
    ]


async def test_a_stop_records_the_repeats(desk: Desk) -> None:
    for _ in range(3):
        desk.log.note(EVIL, violation())
    desk.log.flush()
    desk.log.flush()
    assert [data_of(row)["count"] for row in await desk.records()] == [1, 2]


class FailingJournal:
    """Refuses the first entry, cannot write the second one, and takes the others."""

    def __init__(self) -> None:
        self.written: list[Entry] = []
        self._offered = 0

    def append(self, entry: Entry, listener: CommitListener) -> None:
        self._offered += 1
        if self._offered == 1:
            raise Overloaded("the journal is behind", reason="test")
        if self._offered == 2:
            listener(StorageFull("the disk is full", reason="test"))
            return
        self.written.append(entry)


def test_what_cannot_be_recorded_is_recorded_at_a_later_check(clock: ManualClock) -> None:
    journal = FailingJournal()
    log = ViolationLog(cast("Journal", journal), clock, Counter())
    log.note(EVIL, violation())
    log.note(EVIL, violation())
    for _ in range(3):
        log.update()
    assert [b'"count":2' in entry.records[0].data for entry in journal.written] == [True]

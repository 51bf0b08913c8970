"""A plugin whose workers were given up leaves one record, and another one only after a pardon."""

from dataclasses import dataclass
from typing import Any, cast

from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore

from bollard.host.errors import Overloaded
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import data_of
from bollard.host.plugins.placement import QuarantineLog


@dataclass(eq=False)
class Pool:
    status: str = "ready"
    problem: str | None = None


@dataclass(eq=False)
class Source:
    name: str = "parrot"


@dataclass(eq=False)
class Fitted:
    """The fields that the log of quarantines reads."""

    pool: Pool
    source: Source
    workspace: str = "default"
    plugin_id: str | None = "acme/parrot"
    digest: str | None = "d1"


async def test_a_quarantine_is_recorded_once_until_it_ends(
    memory_store: MemoryStore, open_journal: Any, clock: ManualClock
) -> None:
    journal: Journal = open_journal(memory_store)
    fitted, log = Fitted(Pool(), Source()), QuarantineLog(journal, clock)
    fittings = cast("list[Any]", [fitted, Fitted(Pool(), Source("other"))])

    async def told() -> list[Any]:
        log.update(fittings)
        await journal.commit(Entry())
        return [data_of(row) for row in memory_store.records(0, 100) if row.type == "plugin.quarantined"]

    assert await told() == []
    fitted.pool.status, fitted.pool.problem = "quarantined", "5 crashes within 60 s"
    expected = {"plugin": "acme/parrot", "digest": "d1", "reason": "5 crashes within 60 s"}
    assert await told() == [expected]
    assert await told() == [expected]
    fitted.pool.status = "ready"
    assert await told() == [expected]
    fitted.pool.status = "quarantined"
    assert await told() == [expected, expected]


class FullJournal:
    """Takes nothing the first time."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.full = True

    def append(self, entry: Entry) -> None:
        if self.full:
            self.full = False
            raise Overloaded("the journal is behind", reason="test")
        self.entries.append(entry)


def test_an_unrecorded_quarantine_is_recorded_at_the_next_check(clock: ManualClock) -> None:
    journal = FullJournal()
    log = QuarantineLog(cast("Journal", journal), clock)
    fittings = cast("list[Any]", [Fitted(Pool("quarantined", "why"), Source())])
    for _ in range(3):
        log.update(fittings)
    assert len(journal.entries) == 1

"""The contract of every engine. A cluster's engine is added to `ENGINES` and must pass the same tests."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.engine import Cancel, Engine, LocalEngine
from bollard.host.limits import LEASE_S
from bollard.host.log.entries import Committed, Entry, FencedOff
from bollard.host.log.journal import Journal
from bollard.host.store.queries import Lease
from bollard.host.store.rows import RunRow
from bollard.host.store.store import Store

Make = Callable[[str], tuple[Engine, Journal]]
ENGINES = ["local"]


@pytest.fixture(params=ENGINES)
def engines(request: pytest.FixtureRequest, store: Store, open_journal: Any, clock: ManualClock) -> Make:
    """Engines of several hosts over one store."""

    def local(incarnation: str) -> tuple[Engine, Journal]:
        journal = open_journal(store, incarnation)
        return LocalEngine(journal, store, clock, incarnation), journal

    return {"local": local}[request.param]


async def test_a_submitted_run_is_offered(engines: Make) -> None:
    engine, _ = engines("i1")
    offered: list[str] = []
    engine.subscribe(offered.append, lambda run_id, signal: False)
    engine.submit("run_1")
    engine.submit("run_2")
    assert offered == ["run_1", "run_2"]


async def test_a_claim_gives_the_run_its_epoch_and_writes_its_records(engines: Make, store: Store, scribe: Any) -> None:
    engine, journal = engines("i1")
    facts = scribe.facts()
    await journal.commit(scribe.first(facts, epoch=0))
    assert await engine.claim("run_1", 1, [scribe.record(facts, "run.claimed", {}, 3)])
    row = store.run("run_1")
    assert row is not None
    assert (row.epoch, row.owner, row.status) == (1, "i1", "dispatching")
    assert row.lease_until_ms is not None
    assert abs(row.lease_until_ms - store.now_ms() - LEASE_S * 1000) < 5000
    assert store.last_seq("run_1") == 3


async def test_of_two_claimers_one_wins_and_the_other_writes_no_record(
    engines: Make, store: Store, scribe: Any
) -> None:
    (one, journal), (two, _) = engines("i1"), engines("i2")
    for number in range(10):
        facts = scribe.facts(f"run_{number}")
        await journal.commit(scribe.first(facts, epoch=0))
        won = await asyncio.gather(
            *(
                engine.claim(facts.run_id, 1, [scribe.record(facts, "run.claimed", {"by": engine.incarnation}, 3)])
                for engine in (one, two)
            )
        )
        assert sorted(won) == [False, True]
        winner = "i1" if won[0] else "i2"
        row = store.run(facts.run_id)
        assert row is not None
        assert (row.epoch, row.owner) == (1, winner)
        claimed = [record for record in store.records_of_run(facts.run_id, 0, 10) if record.type == "run.claimed"]
        assert [record.chain for record in claimed] == [winner]


@pytest.mark.parametrize("epoch", [0, 1, 3])
async def test_a_claim_of_the_wrong_epoch_is_lost(engines: Make, store: Store, scribe: Any, epoch: int) -> None:
    engine, journal = engines("i1")
    facts = scribe.facts()
    await journal.commit(scribe.first(facts, epoch=1))
    assert not await engine.claim("run_1", epoch, [scribe.record(facts, "run.claimed", {}, 3, epoch=epoch)])
    assert await engine.claim("run_1", 2, [scribe.record(facts, "run.claimed", {}, 3, epoch=2)])


async def test_an_ended_or_unknown_run_cannot_be_claimed(engines: Make, store: Store, scribe: Any) -> None:
    engine, journal = engines("i1")
    facts = scribe.facts()
    await journal.commit(scribe.first(facts, epoch=0))
    ended = scribe.record(facts, "run.ended", {"status": "cancelled"}, 3)
    assert await engine.claim("run_1", 1, [ended])
    assert not await engine.claim("run_1", 2, [scribe.record(facts, "run.claimed", {}, 4, epoch=2)])
    assert not await engine.claim("run_x", 1, [])


async def test_a_renewal_keeps_owned_runs_and_names_lost_ones(engines: Make, store: Store, scribe: Any) -> None:
    engine, journal = engines("i1")
    for run_id in ("run_1", "run_2", "run_3"):
        await journal.commit(scribe.first(scribe.facts(run_id), epoch=0))
        assert await engine.claim(run_id, 1, [])
    assert await engine.renew(["run_1", "run_2", "run_3"]) == set()
    with store.write() as transaction:
        assert transaction.take_lease("run_2", Lease(owner="i2", epoch=2, until_ms=store.now_ms() + 1000))
    assert await engine.renew(["run_1", "run_2", "run_3"]) == {"run_2"}
    assert await engine.renew([]) == set()


async def test_a_signal_reaches_only_the_owner(engines: Make) -> None:
    engine, _ = engines("i1")
    assert not engine.signal("run_1", Cancel("cancelled"))
    heard: list[tuple[str, str]] = []

    def signalled(run_id: str, signal: Cancel) -> bool:
        if run_id != "run_1":
            return False
        heard.append((run_id, signal.reason))
        return True

    engine.subscribe(lambda run_id: None, signalled)
    assert engine.signal("run_1", Cancel("cancelled"))
    assert not engine.signal("run_2", Cancel("cancelled"))
    assert heard == [("run_1", "cancelled")]


async def test_a_host_is_in_the_list_of_present_hosts(engines: Make, scribe: Any, clock: ManualClock) -> None:
    engine, journal = engines("i1")
    await journal.commit(scribe.first(scribe.facts(), epoch=0))
    await engine.claim("run_1", 1, [])
    await engine.renew(["run_1"])
    (here,) = [host for host in engine.presence() if host.incarnation == engine.incarnation]
    assert (here.runs, here.seen_ms) == (1, clock.now_ms())


# --- leases: the epoch in the store decides, and their time is a hint to those who look for owners that are gone ---

VALID, RUN_OUT = 60_000, -60_000
"""How long a lease lasts from now on, in milliseconds."""


def row_of(store: Store) -> RunRow:
    row = store.run("run_1")
    assert row is not None
    return row


def let_last(store: Store, owner: str, left_ms: int) -> None:
    """The lease of the run ends then, by the store's clock."""
    until_ms = store.now_ms() + left_ms
    with store.write() as transaction:
        assert transaction.renew_leases(owner, ["run_1"], until_ms) == {"run_1"}
    assert row_of(store).lease_until_ms == until_ms


def note(scribe: Any, seq: int, epoch: int) -> Entry:
    """A record of an owner about the run."""
    record = scribe.record(scribe.facts(), "note", {"epoch": epoch}, seq, epoch=epoch)
    return Entry(records=[record], fence=("run_1", epoch))


async def claimed(engine: Engine, journal: Journal, scribe: Any) -> None:
    """A run that this engine owns under its first epoch; its third record is the claim."""
    await journal.commit(scribe.first(scribe.facts(), epoch=0))
    assert await engine.claim("run_1", 1, [scribe.record(scribe.facts(), "run.claimed", {}, 3)])


@pytest.mark.parametrize("left_ms", [VALID, RUN_OUT])
@pytest.mark.parametrize("epoch", [0, 1])
async def test_a_claim_without_a_newer_epoch_is_refused_at_any_age_of_the_lease(
    engines: Make, store: Store, scribe: Any, epoch: int, left_ms: int
) -> None:
    (owner, journal), (other, _) = engines("i1"), engines("i2")
    await claimed(owner, journal, scribe)
    let_last(store, "i1", left_ms)
    before = row_of(store)
    for engine in (other, owner):
        assert not await engine.claim("run_1", epoch, [scribe.record(scribe.facts(), "note", {}, 4, epoch=epoch)])
    assert row_of(store) == before
    assert store.last_seq("run_1") == 3, "nothing was written"
    assert await journal.commit(note(scribe, 4, epoch=1)) == Committed(), "its owner goes on"


@pytest.mark.parametrize("left_ms", [VALID, RUN_OUT])
async def test_a_claim_of_the_next_epoch_fences_off_the_old_owner(
    engines: Make, store: Store, scribe: Any, left_ms: int
) -> None:
    """Also of a valid lease: the next start of a host takes the runs of the last one without a wait."""
    (old, old_journal), (new, new_journal) = engines("i1"), engines("i2")
    await claimed(old, old_journal, scribe)
    let_last(store, "i1", left_ms)
    assert await new.claim("run_1", 2, [scribe.record(scribe.facts(), "run.claimed", {}, 4, epoch=2)])
    taken = row_of(store)
    assert (taken.owner, taken.epoch) == ("i2", 2)
    assert await old_journal.commit(note(scribe, 5, epoch=1)) == FencedOff()
    deltas = Entry(deltas=[scribe.deltas(scribe.facts(), 5, ["late"])], fence=("run_1", 1))
    assert await old_journal.commit(deltas) == FencedOff()
    assert not await old.claim("run_1", 2, [scribe.record(scribe.facts(), "note", {}, 5, epoch=2)])
    assert await old.renew(["run_1"]) == {"run_1"}
    assert row_of(store) == taken, "it did not even move the lease of the new owner"
    assert store.last_seq("run_1") == 4
    assert await new_journal.commit(note(scribe, 5, epoch=2)) == Committed()


@pytest.mark.parametrize("left_ms", [VALID, RUN_OUT])
async def test_a_renewal_extends_the_lease_and_changes_nothing_else_of_the_run(
    engines: Make, store: Store, scribe: Any, left_ms: int
) -> None:
    """Also of an expired lease: a blocked owner continues if no other host took the run."""
    engine, journal = engines("i1")
    await claimed(engine, journal, scribe)
    let_last(store, "i1", left_ms)
    before = row_of(store)
    asked_ms = store.now_ms()
    assert await engine.renew(["run_1"]) == set()
    after = row_of(store)
    assert after.lease_until_ms is not None
    assert asked_ms <= after.lease_until_ms - LEASE_S * 1000 <= store.now_ms(), "on the store's own clock"
    assert (after.owner, after.epoch, after.status) == (before.owner, before.epoch, before.status)
    assert await journal.commit(note(scribe, 4, epoch=1)) == Committed()


async def test_renewing_does_not_keep_ended_or_foreign_runs(engines: Make, store: Store, scribe: Any) -> None:
    (owner, journal), (other, _) = engines("i1"), engines("i2")
    await claimed(owner, journal, scribe)
    before = row_of(store)
    assert await other.renew(["run_1", "run_x"]) == {"run_1", "run_x"}
    assert row_of(store) == before
    ended = scribe.record(scribe.facts(), "run.ended", {"status": "completed"}, 4)
    assert await journal.commit(Entry(records=[ended], fence=("run_1", 1))) == Committed()
    assert await owner.renew(["run_1"]) == {"run_1"}


async def test_writes_of_a_replaced_owner_are_visible_at_the_claim_or_refused(
    engines: Make, store: Store, scribe: Any
) -> None:
    (old, journal), (new, _) = engines("i1"), engines("i2")
    await claimed(old, journal, scribe)
    told: list[int] = []
    under_way = asyncio.Event()

    async def write_until_fenced() -> None:
        seq = 4
        while await journal.commit(note(scribe, seq, epoch=1)) == Committed():
            told.append(seq)
            under_way.set()
            seq += 1

    writing = asyncio.create_task(write_until_fenced())
    await under_way.wait()
    claim = scribe.record(scribe.facts(), "run.claimed", {}, 1_000_000, epoch=2)
    assert await new.claim("run_1", 2, [claim])
    at_the_claim = [record.seq for record in store.records_of_run("run_1", 3, 10_000)]
    await writing
    assert [record.seq for record in store.records_of_run("run_1", 3, 10_000)] == at_the_claim
    assert at_the_claim == [*told, 1_000_000], "all that it was told is there, and nothing else"

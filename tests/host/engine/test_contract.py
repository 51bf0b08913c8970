"""What every engine keeps. A cluster's engine is added to `ENGINES` and must pass the same tests."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bollard.host.clock import ManualClock
from bollard.host.engine.boundary import Cancel, Engine
from bollard.host.engine.local import LocalEngine
from bollard.host.limits import LEASE_S
from bollard.host.log.journal import Journal
from bollard.host.store.boundary import Lease, Store

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


async def test_of_two_claimers_one_wins_and_the_other_writes_nothing(engines: Make, store: Store, scribe: Any) -> None:
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


async def test_nothing_claims_a_run_that_has_ended_or_never_was(engines: Make, store: Store, scribe: Any) -> None:
    engine, journal = engines("i1")
    facts = scribe.facts()
    await journal.commit(scribe.first(facts, epoch=0))
    ended = scribe.record(facts, "run.ended", {"status": "cancelled"}, 3)
    assert await engine.claim("run_1", 1, [ended])
    assert not await engine.claim("run_1", 2, [scribe.record(facts, "run.claimed", {}, 4, epoch=2)])
    assert not await engine.claim("run_x", 1, [])


async def test_a_renewal_keeps_what_is_owned_and_names_what_was_lost(engines: Make, store: Store, scribe: Any) -> None:
    engine, journal = engines("i1")
    for run_id in ("run_1", "run_2", "run_3"):
        await journal.commit(scribe.first(scribe.facts(run_id), epoch=0))
        assert await engine.claim(run_id, 1, [])
    assert await engine.renew(["run_1", "run_2", "run_3"]) == set()
    with store.write() as transaction:
        assert transaction.take_lease("run_2", Lease(owner="i2", epoch=2, until_ms=store.now_ms() + 1000))
    assert await engine.renew(["run_1", "run_2", "run_3"]) == {"run_2"}
    assert await engine.renew([]) == set()


async def test_a_signal_reaches_the_owner_and_nobody_else(engines: Make) -> None:
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


async def test_a_host_is_among_those_that_are_present(engines: Make, scribe: Any, clock: ManualClock) -> None:
    engine, journal = engines("i1")
    await journal.commit(scribe.first(scribe.facts(), epoch=0))
    await engine.claim("run_1", 1, [])
    await engine.renew(["run_1"])
    (here,) = [host for host in engine.presence() if host.incarnation == engine.incarnation]
    assert (here.runs, here.seen_ms) == (1, clock.now_ms())

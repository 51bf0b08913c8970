"""Chains as the journal grows them: signed heads in time, whole across restarts and failures."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore

from bollard.host.errors import StorageUnavailable
from bollard.host.limits import HEAD_RECORDS, HEAD_S
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.store.store import Store

Open = Callable[..., Journal]


async def test_closing_signs_the_unsigned_records(store: Store, open_journal: Open, scribe: Any, verified: Any) -> None:
    journal = open_journal(store)
    for workspace in ("default", "other"):
        await journal.commit(Entry(records=[scribe.note(workspace=workspace)]))
        await journal.commit(Entry(records=[scribe.note(workspace=workspace) for _ in range(2)]))
    assert [head.position for head in store.heads("default")] == [1]
    await journal.close()
    assert [(head.position, head.chain) for head in store.heads("default")] == [(1, "i1"), (3, "i1")]
    verified(store, "i1", 3)
    verified(store, "i1", 3, "other")


async def test_a_chain_is_signed_with_its_first_commit_and_listeners_are_notified(
    store: Store, open_journal: Open, scribe: Any
) -> None:
    journal = open_journal(store)
    told: list[tuple[str, int]] = []
    journal.signed = lambda heads: told.extend((head.workspace, head.position) for head in heads)
    await journal.commit(Entry(records=[scribe.note()]))
    await journal.commit(Entry(records=[scribe.note()]))
    assert [head.position for head in store.heads("default")] == [1]
    await journal.close()
    assert told == [("default", 1), ("default", 2)]


async def test_a_head_is_signed_after_a_thousand_records(
    memory_store: MemoryStore, open_journal: Open, scribe: Any, verified: Any
) -> None:
    journal = open_journal(memory_store)
    note = scribe.note()
    for _ in range(HEAD_RECORDS // 100 * 2):
        await journal.commit(Entry(records=[note] * 100))
    wanted = [100, HEAD_RECORDS + 100]
    assert [head.position for head in memory_store.heads("default")] == wanted
    verified(memory_store, "i1", 2 * HEAD_RECORDS)


async def test_a_head_is_signed_with_the_first_commit_after_a_minute(
    memory_store: MemoryStore, open_journal: Open, clock: ManualClock, scribe: Any
) -> None:
    journal = open_journal(memory_store)
    await journal.commit(Entry(records=[scribe.note()]))
    clock.advance(HEAD_S - 1)
    await journal.commit(Entry(records=[scribe.note()]))
    assert [head.position for head in memory_store.heads("default")] == [1]
    clock.advance(1)
    await journal.commit(Entry(records=[scribe.note()]))
    assert [head.position for head in memory_store.heads("default")] == [1, 3]


async def test_a_head_is_signed_in_time_without_new_records(
    gate: Any, open_journal: Open, clock: ManualClock, scribe: Any
) -> None:
    journal = open_journal(gate.store)
    await journal.commit(Entry(records=[scribe.note()]))
    await journal.commit(Entry(records=[scribe.note()]))
    clock.advance(HEAD_S)
    gate.shut()
    journal.hurry()  # what the end of the writer's wait would do
    await gate.arrival()
    gate.lift()
    await journal.commit(Entry())
    assert [head.position for head in gate.store.heads("default")] == [1, 2]


async def test_each_incarnation_has_its_own_chain_and_all_verify(
    store: Store, open_journal: Open, scribe: Any, verified: Any
) -> None:
    for life in range(3):
        journal = open_journal(store, f"life-{life}")
        facts = scribe.facts(f"run_{life}")
        await journal.commit(scribe.first(facts))
        await journal.commit(Entry(records=[scribe.record(facts, "run.ended", {"status": "failed"}, 3)]))
        await journal.close()
    for life in range(3):
        verified(store, f"life-{life}", 4)
    ids = [row.id for row in store.records(0, 100)]
    assert len(ids) == 12
    assert ids == sorted(set(ids))


async def test_a_commit_that_fails_anywhere_leaves_the_chain_unbroken(
    gate: Any, open_journal: Open, scribe: Any, verified: Any
) -> None:
    journal = open_journal(gate.store)
    written = 0
    for fail_at in range(1, 12):
        # A failure that waiting does not mend, at each call of a commit in turn.
        gate.plan.only, gate.plan.error = "write.", RuntimeError
        gate.plan.calls.clear()
        gate.plan.fail_at = fail_at
        facts = scribe.facts(f"run_{fail_at}")
        outcome = (await asyncio.gather(journal.commit(scribe.first(facts)), return_exceptions=True))[0]
        gate.plan.fail_at = None
        failed = isinstance(outcome, StorageUnavailable)
        written += 0 if failed else 3
        assert (gate.store.run(facts.run_id) is None) is failed
        verified(gate.store, "i1", written)
    assert written
    assert written < 33
    await journal.close()
    verified(gate.store, "i1", written)


async def test_the_next_start_signs_only_the_ends_of_a_killed_host(
    store: Store, open_journal: Open, scribe: Any, verified: Any
) -> None:
    killed = open_journal(store, "killed")
    for workspace in ("default", "other"):
        for _ in range(3):
            await killed.commit(Entry(records=[scribe.note(workspace=workspace)]))
    await killed.commit(Entry(records=[scribe.note(workspace="signed")]))
    told: list[tuple[str, str, int]] = []
    for life in ("second", "third"):
        journal = open_journal(store, life)
        journal.signed = lambda heads: told.extend((head.workspace, head.chain, head.position) for head in heads)
        await journal.commit(Entry())
        if life == "second":
            assert sorted(told) == [("default", "killed", 3), ("other", "killed", 3)]
    assert len(told) == 2, "what is signed is not signed again"
    assert [head.position for head in store.heads("signed")] == [1]
    for workspace, length in (("default", 3), ("other", 3), ("signed", 1)):
        assert store.heads(workspace)[-1].position == length
        verified(store, "killed", length, workspace)

"""The journal: every reported commit is on disk, in order, once, and no entry suffers for another."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doubles.failing_store import FailurePlan, failing
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore

from bollard.host.errors import Conflict, HostError, Overloaded, StorageFull, StorageUnavailable, StoreTaken
from bollard.host.limits import JOURNAL_BATCH_BYTES, JOURNAL_BATCH_RECORDS, JOURNAL_QUEUE_BYTES, JOURNAL_QUEUE_ENTRIES
from bollard.host.log.entries import Chore, Committed, Duplicate, Entry, FencedOff, Renewed
from bollard.host.log.journal import Journal
from bollard.host.log.journal_writers import WriterThread
from bollard.host.log.records import NewRecord
from bollard.host.log.writer import Writer
from bollard.host.store.queries import Lease
from bollard.host.store.rows import DropKept, KeptRow, PutKept
from bollard.host.store.store import Store

Open = Callable[..., Journal]


def told_into(outcomes: list[Any]) -> Callable[[Any], None]:
    return outcomes.append


async def queued_behind_the_gate(journal: Journal, gate: Any, scribe: Any) -> asyncio.Task[Any]:
    """A commit that does not end: later entries queue up."""
    gate.shut()
    first = asyncio.create_task(journal.commit(Entry(records=[scribe.note(n=0)])))
    await gate.arrival()
    return first


# --- order and group commit ---


async def test_records_are_on_disk_in_queue_order(store: Store, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(store)
    waits = [journal.commit(Entry(records=[scribe.note(n=n), scribe.note(n=n + 0.5)])) for n in range(20)]
    assert await asyncio.gather(*waits) == [Committed()] * 20
    rows = store.records(0, 100)
    assert [row.data for row in rows] == [scribe.note(n=n / 2 if n % 2 else n // 2).data for n in range(40)]
    assert [row.position for row in rows] == list(range(1, 41))
    assert sorted(row.id for row in rows) == [row.id for row in rows]


async def test_entries_queued_during_a_commit_share_the_next_commit(gate: Any, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(gate.store)
    first = await queued_behind_the_gate(journal, gate, scribe)
    later = [asyncio.create_task(journal.commit(Entry(records=[scribe.note(n=n)]))) for n in range(1, 50)]
    await asyncio.sleep(0)
    gate.lift()
    await asyncio.gather(first, *later)
    assert gate.commits == 2
    assert journal.numbers.entries == 50


async def test_a_commit_is_reported_only_after_it_is_on_disk(gate: Any, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(gate.store)
    first = await queued_behind_the_gate(journal, gate, scribe)
    assert gate.store.records(0, 10) == []
    assert not first.done()
    gate.lift()
    assert await first == Committed()
    assert len(gate.store.records(0, 10)) == 1


async def test_a_commit_is_bounded_in_records(gate: Any, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(gate.store)
    first = await queued_behind_the_gate(journal, gate, scribe)
    notes = [scribe.note(n=n) for n in range(100)]
    later = [asyncio.create_task(journal.commit(Entry(records=notes))) for _ in range(12)]
    await asyncio.sleep(0)
    gate.lift()
    await asyncio.gather(first, *later)
    per_commit = JOURNAL_BATCH_RECORDS // 100
    assert gate.commits == 1 + -(-12 // per_commit)


async def test_a_commit_is_bounded_in_bytes_and_one_large_entry_still_passes(
    gate: Any, open_journal: Open, scribe: Any
) -> None:
    journal = open_journal(gate.store)
    first = await queued_behind_the_gate(journal, gate, scribe)
    sizes = [JOURNAL_BATCH_BYTES * 2, JOURNAL_BATCH_BYTES // 2, JOURNAL_BATCH_BYTES // 2, 1]
    later = [asyncio.create_task(journal.commit(Entry(records=[scribe.note()], size=size))) for size in sizes]
    await asyncio.sleep(0)
    gate.lift()
    await asyncio.gather(first, *later)
    assert gate.commits == 1 + 3


async def test_a_full_queue_refuses_entries_and_writes_the_accepted_ones(
    gate: Any, open_journal: Open, scribe: Any
) -> None:
    journal = open_journal(gate.store)
    first = await queued_behind_the_gate(journal, gate, scribe)
    empty = Entry()
    for _ in range(JOURNAL_QUEUE_ENTRIES - 2):
        journal.append(empty)
    last = asyncio.create_task(journal.commit(Entry(records=[scribe.note(last=True)])))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded) as refusal:
        journal.append(empty)
    assert refusal.value.retryable
    assert refusal.value.hint
    gate.lift()
    assert (await first, await last) == (Committed(), Committed())
    assert len(gate.store.records(0, 10)) == 2


async def test_a_queue_is_bounded_in_bytes_and_accepts_again_once_empty(
    gate: Any, open_journal: Open, scribe: Any
) -> None:
    journal = open_journal(gate.store)
    first = await queued_behind_the_gate(journal, gate, scribe)
    large = asyncio.create_task(journal.commit(Entry(records=[scribe.note()], size=JOURNAL_QUEUE_BYTES)))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        journal.append(Entry(size=1))
    gate.lift()
    await asyncio.gather(first, large)
    assert await journal.commit(Entry(records=[scribe.note()], size=JOURNAL_QUEUE_BYTES)) == Committed()


# --- lingering ---


async def test_a_batch_without_a_waiter_lingers(gate: Any, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(gate.store)
    outcomes: list[Any] = []
    done = asyncio.Event()

    def told(fate: Any) -> None:
        outcomes.append(fate)
        if len(outcomes) == 2:
            done.set()

    lone = Entry(deltas=[scribe.deltas(scribe.facts(), 1, ["a"])], urgent=False)
    journal.append(lone, told)
    journal.append(replace(lone, deltas=[scribe.deltas(scribe.facts(), 2, ["b"])]), told)
    await asyncio.wait_for(done.wait(), 20)
    assert outcomes == [Committed(), Committed()]
    assert gate.commits == 1


async def test_lingering_ends_when_a_caller_waits(
    memory_store: MemoryStore, clock: ManualClock, blobs: Any, signing_key: Any, scribe: Any
) -> None:
    """With a linger that no test would wait for, only `hurry` and an urgent entry let a batch go."""
    lingers = Lingering()
    desk = WriterThread(Writer(memory_store, blobs, clock, incarnation="i1", key=signing_key))
    desk._changed = lingers  # type: ignore[assignment]
    journal = Journal(desk)
    await journal.start()
    fate: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    journal.append(Entry(deltas=[scribe.deltas(scribe.facts(), 1, ["a"])], urgent=False), fate.set_result)
    await lingers.reached()
    assert not fate.done()
    journal.hurry()
    assert await asyncio.wait_for(fate, 20) == Committed()
    journal.append(Entry(deltas=[scribe.deltas(scribe.facts(), 2, ["b"])], urgent=False))
    await lingers.reached()
    assert await asyncio.wait_for(journal.commit(Entry(records=[scribe.note()])), 20) == Committed()
    assert len(memory_store.deltas_of_run("run_1", 0)) == 2
    await journal.close()


class Lingering(threading.Condition):
    """A condition that waits for a notification, whatever its timeout."""

    def __init__(self) -> None:
        super().__init__()
        self._waits = threading.Semaphore(0)

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None and timeout < 1:
            self._waits.release()
        return super().wait(20)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._waits.acquire, timeout=120)


# --- fencing, dedupe, leases ---


async def test_an_entry_of_another_epoch_is_fenced_off(store: Store, open_journal: Open, scribe: Any) -> None:
    journal, facts = open_journal(store), scribe.facts()
    await journal.commit(scribe.first(facts, epoch=2))
    before = (store.records(0, 100), store.dump_projections())
    for epoch in (1, 3):
        entry = Entry(
            records=[scribe.record(facts, "run.ended", {"status": "completed"}, 3, epoch=epoch)],
            deltas=[scribe.deltas(facts, 4, ["x"], epoch=epoch)],
            fence=(facts.run_id, epoch),
        )
        assert await journal.commit(entry) == FencedOff()
    assert (store.records(0, 100), store.dump_projections()) == before
    assert store.deltas_of_run(facts.run_id, 0) == []
    fine = Entry(records=[scribe.record(facts, "run.started", {}, 3, epoch=2)], fence=(facts.run_id, 2))
    assert await journal.commit(fine) == Committed()


async def test_an_ended_run_is_fenced_off(store: Store, open_journal: Open, scribe: Any) -> None:
    journal, facts = open_journal(store), scribe.facts()
    await journal.commit(scribe.first(facts))
    end = Entry(records=[scribe.record(facts, "run.ended", {"status": "completed"}, 3)], fence=("run_1", 1))
    assert await journal.commit(end) == Committed()
    late = Entry(records=[scribe.record(facts, "message.completed", {"message": {}}, 4)], fence=("run_1", 1))
    assert await journal.commit(late) == FencedOff()
    assert store.last_seq("run_1") == 3


async def test_an_unknown_run_is_fenced_off(store: Store, open_journal: Open, scribe: Any) -> None:
    entry = Entry(records=[scribe.record(scribe.facts("run_x"), "run.started", {}, 1)], fence=("run_x", 1))
    assert await open_journal(store).commit(entry) == FencedOff()
    assert store.records(0, 10) == []


async def test_a_duplicate_event_gets_its_first_outcome(store: Store, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(store)
    first = scribe.first(scribe.facts("run_1"), source_id="same")
    second = scribe.first(scribe.facts("run_2"), source_id="same")
    assert await journal.commit(first) == Committed()
    again = await journal.commit(second)
    assert isinstance(again, Duplicate)
    assert (again.first.run_id, again.first.event_id) == ("run_1", "evt_run_1")
    assert store.run("run_2") is None


async def test_equal_events_of_one_burst_start_one_run(gate: Any, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(gate.store)
    first = await queued_behind_the_gate(journal, gate, scribe)
    entries = [scribe.first(scribe.facts(f"run_{n}"), source_id="same") for n in range(5)]
    burst = [asyncio.create_task(journal.commit(entry)) for entry in entries]
    await asyncio.sleep(0)
    gate.lift()
    outcomes = await asyncio.gather(first, *burst)
    assert outcomes[:2] == [Committed(), Committed()]
    assert [outcome.first.run_id for outcome in outcomes[2:]] == ["run_0"] * 4
    assert [row.run_id for row in gate.store.unfinished_runs("", 10)] == ["run_0"]


async def test_a_run_is_claimed_once_per_epoch(store: Store, open_journal: Open, scribe: Any) -> None:
    journal, facts = open_journal(store), scribe.facts()
    await journal.commit(scribe.first(facts, epoch=0))
    claims = [
        journal.commit(
            Entry(
                records=[scribe.record(facts, "run.claimed", {"by": owner}, 3, epoch=1)],
                lease=("run_1", Lease(owner=owner, epoch=1, until_ms=store.now_ms() + 1000)),
            )
        )
        for owner in ("a", "b", "c")
    ]
    assert await asyncio.gather(*claims) == [Committed(), FencedOff(), FencedOff()]
    row = store.run("run_1")
    assert row is not None
    assert (row.epoch, row.status) == (1, "dispatching")
    assert [record.seq for record in store.records_of_run("run_1", 0, 10)] == [1, 2, 3]


async def test_only_the_owner_renews(store: Store, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(store, "i1")
    for run_id in ("run_1", "run_2"):
        await journal.commit(scribe.first(scribe.facts(run_id)))
    ended = Entry(records=[scribe.record(scribe.facts("run_2"), "run.ended", {"status": "failed"}, 3)])
    await journal.commit(ended)
    until = store.now_ms() + 60_000
    kept = await journal.commit(Entry(renew=("i1", ("run_1", "run_2", "run_x"), until)))
    assert kept == Renewed(frozenset({"run_1"}))
    assert await journal.commit(Entry(renew=("i2", ("run_1",), until))) == Renewed(frozenset())
    row = store.run("run_1")
    assert row is not None
    assert row.lease_until_ms == until


# --- failures ---


class Breaking:
    """Fails commits on purpose: `count` times, or for one poisonous entry."""

    def __init__(self, gate: Any) -> None:
        self._gate = gate

    def times(self, count: int, error: Callable[[], Exception]) -> None:
        left = count
        passed = self._gate._on_call

        def on_call(call: str) -> None:
            nonlocal left
            passed(call)
            if call == "write.commit" and left:
                left -= 1
                raise error()

        self._gate.plan.on_call = on_call


def unavailable() -> Exception:
    return StorageUnavailable("busy", reason="test", hint="wait")


async def test_a_commit_is_retried_while_the_store_is_unavailable(gate: Any, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(gate.store)
    Breaking(gate).times(2, unavailable)
    outcome = await journal.commit(Entry(records=[scribe.note(n=1)]))
    assert outcome == Committed()
    assert journal.numbers.retries == 2
    assert [row.position for row in gate.store.records(0, 10)] == [1]


async def test_every_waiter_fails_if_the_store_stays_unavailable_and_the_chain_continues(
    gate: Any, open_journal: Open, scribe: Any, verified: Any
) -> None:
    journal = open_journal(gate.store)
    await journal.commit(Entry(records=[scribe.note(n=1)]))
    gate.broken = unavailable()
    outcomes = await asyncio.gather(
        *(journal.commit(Entry(records=[scribe.note(n=n)])) for n in range(5)), return_exceptions=True
    )
    assert [type(fate) for fate in outcomes] == [StorageUnavailable] * 5
    gate.broken = None
    assert await journal.commit(Entry(records=[scribe.note(n=2)])) == Committed()
    assert [row.position for row in gate.store.records(0, 10)] == [1, 2]
    verified(gate.store, "i1", 2)


@pytest.mark.parametrize("error", [StorageFull("full", reason="test", hint="delete"), KeyError("a bug")])
async def test_a_permanent_refusal_is_reported_at_once(
    gate: Any, open_journal: Open, scribe: Any, error: Exception
) -> None:
    journal = open_journal(gate.store)
    gate.broken = error
    with pytest.raises(HostError) as told:
        await journal.commit(Entry(records=[scribe.note()]))
    assert isinstance(told.value, StorageFull if isinstance(error, StorageFull) else StorageUnavailable)
    assert journal.numbers.retries == 0
    gate.broken = None
    assert await journal.commit(Entry(records=[scribe.note()])) == Committed()


@pytest.mark.parametrize("poison", ["bug", "conflict"])
async def test_one_unwritable_entry_does_not_fail_others(
    gate: Any, open_journal: Open, scribe: Any, verified: Any, poison: str
) -> None:
    journal = open_journal(gate.store)
    known = scribe.first(scribe.facts())
    await journal.commit(known)
    first = await queued_behind_the_gate(journal, gate, scribe)
    senseless = NewRecord(workspace="default", type="event.received", data=b"{}", created_ms=1)
    poisonous = [senseless] if poison == "bug" else known.records  # a record without its fields; an event twice
    entries = [Entry(records=[scribe.note(n=1)]), Entry(records=poisonous), Entry(records=[scribe.note(n=3)])]
    waits = [asyncio.create_task(journal.commit(entry)) for entry in entries]
    await asyncio.sleep(0)
    gate.lift()
    await first
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    assert (outcomes[0], outcomes[2]) == (Committed(), Committed())
    assert isinstance(outcomes[1], Conflict if poison == "conflict" else StorageUnavailable)
    assert [row.data for row in gate.store.records(0, 10)][3:] == [scribe.note(n=n).data for n in (0, 1, 3)]
    verified(gate.store, "i1", 6)


def unknown() -> Exception:
    return StorageUnavailable("the connection died in a commit", reason="test", hint="look", outcome="unknown")


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("blind", [0, 12])
async def test_a_commit_of_unknown_outcome_is_looked_up_before_a_retry(
    gate: Any, open_journal: Open, scribe: Any, verified: Any, landed: bool, blind: int
) -> None:
    """`blind`: the store stays away for longer than the journal waits for a commit, so that no lookup is possible."""
    journal = open_journal(gate.store)
    facts = scribe.facts()
    await journal.commit(scribe.first(facts))
    away = blind

    def on_call(call: str) -> None:
        nonlocal away
        if away and died and call in ("write.begin", "read.chain"):
            away -= 1
            raise unavailable()

    died: list[str] = []

    def die(call: str) -> Exception:
        died.append(call)
        gate.plan.fail_at = None
        return unknown()

    gate.plan.only, gate.plan.after_commit, gate.plan.error, gate.plan.on_call = "write.commit", landed, die, on_call
    gate.plan.calls.clear()
    gate.plan.fail_at = 1
    fate = await journal.commit(Entry(records=[scribe.record(facts, "run.started", {}, 3)], fence=("run_1", 1)))
    assert died
    assert fate == Committed()
    more = Entry(records=[scribe.record(facts, "result.gap", {}, 4)], fence=("run_1", 1))
    assert await journal.commit(more) == Committed()
    assert [row.seq for row in gate.store.records_of_run("run_1", 0, 10)] == [1, 2, 3, 4]
    verified(gate.store, "i1", 5)


@pytest.mark.parametrize("landed", [True, False])
async def test_deltas_of_a_commit_of_unknown_outcome_are_written_once(
    gate: Any, open_journal: Open, scribe: Any, landed: bool
) -> None:
    journal, facts = open_journal(gate.store), scribe.facts()
    await journal.commit(scribe.first(facts))

    def die(call: str) -> Exception:
        gate.plan.fail_at = None
        return unknown()

    gate.plan.only, gate.plan.after_commit, gate.plan.error = "write.commit", landed, die
    gate.plan.calls.clear()
    gate.plan.fail_at = 1
    assert await journal.commit(Entry(deltas=[scribe.deltas(facts, 3, ["a", "b"])], fence=("run_1", 1))) == Committed()
    assert [(row.first_seq, row.last_seq) for row in gate.store.deltas_of_run("run_1", 0)] == [(3, 4)]


def failing_late(store: Store, error: Exception) -> tuple[Store, FailurePlan]:
    """A store that makes a commit and reports its failure once."""

    def fail(call: str) -> Exception:
        plan.fail_at = None
        return error

    plan = FailurePlan(only="write.commit", after_commit=True, error=fail)
    return failing(store, plan), plan


async def test_a_successful_commit_that_was_reported_as_failed_is_not_repeated(
    store: Store, open_journal: Open, scribe: Any, verified: Any
) -> None:
    late, plan = failing_late(store, unavailable())
    journal, facts = open_journal(late), scribe.facts()
    plan.fail_at = 1
    assert await journal.commit(scribe.first(facts)) == Committed()
    more = Entry(records=[scribe.record(facts, "run.started", {}, 3)], fence=("run_1", 1))
    assert await journal.commit(more) == Committed()
    assert [row.seq for row in store.records_of_run("run_1", 0, 10)] == [1, 2, 3]
    verified(store, "i1", 4)


async def test_a_commit_wrongly_reported_as_lost_does_not_stop_the_journal(
    store: Store, open_journal: Open, scribe: Any, verified: Any
) -> None:
    late, plan = failing_late(store, ValueError("a mistake"))
    journal, facts = open_journal(late), scribe.facts()
    plan.fail_at = 1
    with pytest.raises(StorageUnavailable):
        await journal.commit(scribe.first(facts))
    later = [journal.commit(Entry(records=[scribe.note(n=n)])) for n in range(3)]
    assert await asyncio.gather(*later) == [Committed()] * 3
    await journal.close()
    verified(store, "i1", 6)
    assert max(head.position for head in store.heads("default")) == 6


async def test_a_commit_to_a_taken_store_is_not_retried(gate: Any, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(gate.store)
    await journal.commit(Entry(records=[scribe.note(n=1)]))
    begun, gate.broken = gate.begun, StoreTaken("another host wrote", reason="test")
    with pytest.raises(StoreTaken):
        await journal.commit(Entry(records=[scribe.note(n=2)]))
    assert gate.begun == begun + 1


# --- blobs ---


async def test_contents_are_stored_before_the_records_that_name_them(
    gate: Any, open_journal: Open, blobs: Any, scribe: Any
) -> None:
    journal = open_journal(gate.store)
    gate.shut()
    waiting = asyncio.create_task(journal.commit(Entry(records=[scribe.note()], blobs=[b"one", b"two"])))
    await gate.arrival()
    assert sorted(blobs.contents.values()) == [b"one", b"two"]
    assert gate.store.records(0, 10) == []
    gate.lift()
    await waiting


async def test_an_unwritable_blob_fails_only_its_own_entry(
    gate: Any, open_journal: Open, blobs: Any, scribe: Any
) -> None:
    journal = open_journal(gate.store)
    first = await queued_behind_the_gate(journal, gate, scribe)
    put = blobs.put

    def refuse(content: bytes) -> str:
        if content == b"bad":
            raise OSError("the disk is unhappy")
        return put(content)

    blobs.put = refuse
    entries = [Entry(records=[scribe.note(n=n)], blobs=[blob]) for n, blob in ((1, b"good"), (2, b"bad"), (3, b"fine"))]
    waits = [asyncio.create_task(journal.commit(entry)) for entry in entries]
    await asyncio.sleep(0)
    gate.lift()
    await first
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    assert (outcomes[0], type(outcomes[1]), outcomes[2]) == (Committed(), StorageUnavailable, Committed())
    assert len(gate.store.records(0, 10)) == 3


# --- the end ---


async def test_closing_writes_every_accepted_entry(gate: Any, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(gate.store)
    first = await queued_behind_the_gate(journal, gate, scribe)
    outcomes: list[Any] = []
    for n in range(1, 1001):
        journal.append(Entry(records=[scribe.note(n=n)], urgent=False), told_into(outcomes))
    closing = asyncio.create_task(journal.close())
    await asyncio.sleep(0)
    gate.lift()
    await asyncio.gather(first, closing)
    assert len(gate.store.records(0, 2000)) == 1001
    await asyncio.sleep(0)
    assert outcomes == [Committed()] * 1000
    with pytest.raises(StorageUnavailable):
        journal.append(Entry(records=[scribe.note()]))


async def test_housekeeping_counts_its_rows_inside_a_commit(store: Store, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(store)
    await journal.commit(Entry(records=[scribe.note(n=n) for n in range(7)]))
    chore = Chore(kind="drop_data", type=scribe.note().type, before_ms=1 << 60, limit=100)
    assert await journal.housekeep(chore) == 7
    assert await journal.housekeep(chore) == 0
    assert [row.data for row in store.records(0, 10)] == [None] * 7


def kept(kept_id: str, body: bytes = b"secret") -> KeptRow:
    return KeptRow(kind="session", workspace="w", id=kept_id, body=body, expires_ms=None, updated_ms=1)


async def test_kept_rows_commit_together_with_their_records(store: Store, open_journal: Open, scribe: Any) -> None:
    journal = open_journal(store)
    await journal.commit(Entry(records=[scribe.note(n=1)], keeps=[PutKept(kept("a")), PutKept(kept("b"))]))
    assert store.all_kept("session") == [kept("a"), kept("b")]
    await journal.commit(Entry(keeps=[DropKept("session", "w", "a")]))
    fenced = Entry(records=[scribe.note(n=2)], keeps=[PutKept(kept("c"))], fence=("run_nobody", 1))
    assert await journal.commit(fenced) == FencedOff()
    assert store.all_kept("session") == [kept("b")]
    assert all(b"secret" not in (row.data or b"") for row in store.records(0, 10))


async def test_kept_rows_of_a_commit_of_unknown_outcome_are_written_by_the_retry(gate: Any, open_journal: Open) -> None:
    gate.plan.fail_at, gate.plan.only, gate.plan.after_commit = 1, "write.commit", True
    gate.plan.error = lambda call: StorageUnavailable(f"lost at {call}", reason="test", outcome="unknown")
    journal = open_journal(gate.store)
    assert await journal.commit(Entry(keeps=[PutKept(kept("a"))])) == Committed()
    assert gate.store.all_kept("session") == [kept("a")]

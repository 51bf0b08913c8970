"""One commit is all or nothing, on every store, wherever it fails."""

import threading

import pytest
from tests.doubles.failing_store import FailurePlan, failing

from bollard.host.errors import HostError, StorageUnavailable
from bollard.host.store.queries import Lease, RunQuery
from bollard.host.store.rows import (
    DropPolicy,
    DropState,
    DropStorage,
    PatchEvent,
    PatchRun,
    PutArtifact,
    PutEvent,
    PutPolicy,
    PutRun,
    PutState,
    PutStorage,
    PutTranscript,
)

BATCHES = 6


def contents(store, make):
    """Everything that can be read, to compare before with after."""
    return (
        store.records(0, 1000),
        [store.deltas_of_run(f"r{index}", 0) for index in range(BATCHES)],
        store.heads("w"),
        store.runs(RunQuery(workspace="w", limit=1000)),
        store.search(make.room(), [("tea",)]),
        store.meta("k"),
        store.dump_projections(),
    )


def write_batch(store, make, index):
    """One commit that uses every kind of write."""
    with store.write() as transaction:
        transaction.lock_epochs([f"r{index - 1}"])
        first = transaction.next_record_ids(3)
        transaction.add_records(make.records(first, 3, f"r{index}"))
        transaction.add_deltas([make.deltas(f"r{index}", 10, [b"a"]), make.deltas(f"r{index}", 11, [b"b"])])
        changes = [
            PutEvent(make.event(first, event_id=f"e{index}", source_id=f"s{index}")),
            PutRun(make.run(f"r{index}")),
            PatchRun(f"r{index}", {"status": "running"}),
            PutTranscript(make.said(first, f"tea {index}", transcript_id=f"t{index}")),
            PutState(make.state("k", b"%d" % index)),
            PutArtifact(make.artifact(f"x{index}")),
            PatchEvent("w", f"e{index - 1}", {"dispatch": "dropped"}),
            PutStorage(make.stored(f"k{index}")),
            DropStorage("area", f"k{index - 1}"),
            PutPolicy("agent", make.policy("a", revision=index)),
            PutPolicy("binding", make.policy(f"b{index}")),
            DropPolicy("binding", "w", f"b{index - 1}"),
        ]
        transaction.apply(changes if index % 2 else [*changes, DropState("scope", "k")])
        transaction.event_dispatch("w", f"e{index}")
        transaction.state_size("scope", 0)
        transaction.take_lease(f"r{index}", Lease(owner="a", epoch=1, until_ms=5))
        transaction.merge_deltas(f"r{index}", 0, 1 << 40)
        transaction.add_head(make.head(first))
        transaction.put_meta("k", str(index))
        transaction.drop_data(["message.completed"], 1, 1)


def test_a_failed_transaction_leaves_nothing(store, make):
    write_batch(store, make, 0)
    before = contents(store, make)

    def write_and_fail():
        with store.write() as transaction:
            transaction.add_records(make.records(transaction.next_record_ids(2), 2, "r9"))
            transaction.apply([PatchRun("r0", {"status": "failed"}), PutState(make.state("k", b"9"))])
            transaction.apply([DropState("scope", "k"), PutTranscript(make.said(99, "tea"))])
            transaction.apply([PatchEvent("w", "e0", {"dispatch": "pending"}), DropPolicy("agent", "w", "a")])
            transaction.apply([DropStorage("area", "k0"), PutPolicy("binding", make.policy("b9"))])
            transaction.merge_deltas("r0", 0, 1 << 40)
            transaction.drop_data(["message.completed"], 2**60, 10)
            transaction.clear_projections()
            raise KeyError("on purpose")

    with pytest.raises(KeyError):
        write_and_fail()
    assert contents(store, make) == before


def test_a_transaction_is_invisible_before_its_commit(request, make):
    for kind in ("sqlite", "postgres"):
        store = request.getfixturevalue(f"{kind}_store")
        with store.write() as transaction:
            transaction.add_records(make.records(transaction.next_record_ids(1), 1, f"r-{kind}"))
            transaction.apply([PutRun(make.run("r"))])
            assert transaction.lock_epochs(["r"]) == {"r": 0}
            assert store.records(0, 10) == []
            assert store.run("r") is None
        assert len(store.records(0, 10)) == 1


def test_after_a_failure_the_next_commit_works(store, make, reopen):
    for _ in range(3):
        with pytest.raises(HostError), store.write() as transaction:
            transaction.add_records([make.record(1), make.record(1)])
    with store.write() as transaction:
        transaction.put_meta("k", "fine")
    reopen(store)
    assert store.meta("k") == "fine"
    assert store.records(0, 10) == []


def calls_of_the_workload(store, make):
    plan = FailurePlan(only="write.")
    watched = failing(store, plan)
    for index in range(BATCHES):
        write_batch(watched, make, index)
    return len(plan.calls)


@pytest.mark.parametrize("after_commit", [False, True])
def test_a_workload_that_fails_at_any_call_leaves_only_its_commits(store, make, reopen, after_commit):
    with store.write() as transaction:
        assert transaction.find_event("w", "web", "s0") is None
    per_batch = calls_of_the_workload(store, make) // BATCHES
    index, calls = BATCHES, range(1, per_batch + 1)
    for fail_at in calls:
        before = contents(store, make)
        plan = FailurePlan(fail_at=fail_at, only="write.", after_commit=after_commit)
        with pytest.raises(StorageUnavailable, match="on purpose"):
            write_batch(failing(store, plan), make, index)
        reopen(store)
        made = after_commit and plan.calls[-1] == "write.commit"
        assert (contents(store, make) != before) is made
        index += made
    assert plan.calls[-1] == "write.commit"
    write_batch(store, make, index)
    assert store.meta("k") == str(index)


def test_readers_see_complete_commits_during_writes(store, make):
    commits, wrong, done = 60, [], threading.Event()

    def read():
        while not done.is_set():
            newest = int(store.meta("n") or 0)
            found = len(store.records(0, 10_000))
            if found % 5 or found < 5 * newest:
                wrong.append((newest, found))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for index in range(1, commits + 1):
        with store.write() as transaction:
            transaction.add_records(make.records(transaction.next_record_ids(5), 5, f"r{index}"))
            transaction.put_meta("n", str(index))
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert len(store.records(0, 10_000)) == 5 * commits


def test_writers_in_many_threads_take_turns(store, make):
    def count():
        for _ in range(20):
            with store.write() as transaction:
                transaction.apply([PutState(make.state("n", b"1"))])

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.state("scope", "n").version == 80


def test_a_failing_store_fails_reads_by_its_plan_and_records_every_call(memory_store):
    seen = []
    plan = FailurePlan(fail_at=2, only="read.", on_call=seen.append, error=OSError)
    store = failing(memory_store, plan)
    assert store.run("r") is None
    with store.write() as transaction:
        transaction.put_meta("k", "v")
    with pytest.raises(OSError, match=r"read\.meta"):
        store.meta("k")
    assert store.meta("k") == "v"
    assert seen == ["read.run", "write.begin", "write.put_meta", "write.commit", "read.meta", "read.meta"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_closed_store_gives_a_reason(request, kind):
    store = request.getfixturevalue(f"{kind}_store")
    store.close()
    with pytest.raises(StorageUnavailable, match="closed"):
        store.run("r")
    with pytest.raises(StorageUnavailable, match="closed"), store.write():
        pytest.fail("a closed store takes nothing")

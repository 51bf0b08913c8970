"""Runs on every store: their columns, pages, leases and fences."""

import pytest

from bollard.host.errors import Conflict
from bollard.host.store.queries import Lease, RunQuery
from bollard.host.store.rows import PatchRun, PutRun
from bollard.protocol import RUN_STATUSES, TERMINAL_STATUSES

T0 = 1_700_000_000_000


def lease(epoch: int, owner: str = "host-a", until: int = T0 + 15_000) -> Lease:
    return Lease(owner=owner, epoch=epoch, until_ms=until)


def test_a_run_reads_back_the_same(store, make, apply):
    run = make.run("r1", bot="bot", thread="t", parent_run_id="r0", facts=b"\x00\xff")
    apply(store, PutRun(run))
    assert store.run("r1") == run
    assert store.run("r2") is None


def test_a_run_is_stored_once(store, make, apply):
    apply(store, PutRun(make.run("r1", status="completed")))
    with pytest.raises(Conflict):
        apply(store, PutRun(make.run("r1")))
    assert store.run("r1").status == "completed"


def test_one_commit_stores_a_run_once(store, make, apply):
    with pytest.raises(Conflict):
        apply(store, PutRun(make.run("r1")), PutRun(make.run("r1", status="completed")))
    assert store.run("r1") is None


def test_a_patch_changes_only_the_named_columns(store, make, apply):
    apply(store, PutRun(make.run("r1")), PutRun(make.run("r2")))
    apply(store, PatchRun("r1", {"status": "running", "started_ms": T0 + 5, "last_seq": 7}))
    patched = make.run("r1", status="running", started_ms=T0 + 5, last_seq=7)
    assert [store.run("r1"), store.run("r2")] == [patched, make.run("r2")]


def test_a_new_run_is_patched_in_its_first_commit(store, make, apply):
    apply(store, PutRun(make.run("r1")), PatchRun("r1", {"status": "running"}), PatchRun("r1", {"last_seq": 2}))
    assert store.run("r1") == make.run("r1", status="running", last_seq=2)


def test_patches_of_one_commit_are_applied_in_order(store, make, apply):
    apply(store, PutRun(make.run("r1")))
    apply(store, PatchRun("r1", {"status": "running", "last_seq": 1}), PatchRun("r1", {"status": "failed"}))
    assert store.run("r1") == make.run("r1", status="failed", last_seq=1)


def test_a_patch_of_an_absent_run_changes_nothing(store, apply):
    apply(store, PatchRun("nobody", {"status": "running"}))
    assert store.run("nobody") is None


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_patch_with_an_unknown_column_is_refused(request, kind, make, apply):
    store = request.getfixturevalue(f"{kind}_store")
    apply(store, PutRun(make.run("r1")))
    with pytest.raises(ValueError, match="no such field"):
        apply(store, PatchRun("r1", {"status = 'failed' --": 1}))
    assert store.run("r1") == make.run("r1")


def test_runs_are_paged_newest_first_without_a_gap_or_a_repeat(store, make, apply):
    runs = [make.run(f"r{index:02d}", created_ms=T0 + index // 3) for index in range(20)]
    apply(store, *map(PutRun, runs), PutRun(make.run("foreign", workspace="other")))
    seen, before = [], None
    while page := store.runs(RunQuery(workspace="w", limit=7, before=before)):
        seen += page
        before = (page[-1].created_ms, page[-1].run_id)
    assert seen == sorted(runs, key=lambda run: (run.created_ms, run.run_id), reverse=True)


def test_runs_are_filtered_by_status_agent_and_conversation(store, make, apply):
    statuses = ["queued", "running", "completed", "failed"]
    runs = [
        make.run(f"{status}-{agent}-{room}", status=status, agent_id=agent, conversation=room)
        for status in statuses
        for agent in ("a1", "a2")
        for room in ("x", None)
    ]
    apply(store, *map(PutRun, runs))

    def found(**filters):
        return {run.run_id for run in store.runs(RunQuery(workspace="w", limit=100, **filters))}

    assert len(found()) == len(runs)
    assert found(statuses=frozenset({"running"})) == {run.run_id for run in runs if run.status == "running"}
    ended_or_queued = frozenset({"queued", "failed"})
    assert found(statuses=ended_or_queued) == {run.run_id for run in runs if run.status in ended_or_queued}
    assert found(statuses=frozenset()) == set()
    assert found(agent_id="a2", conversation="x") == {f"{status}-a2-x" for status in statuses}


def test_unfinished_runs_are_listed_by_id(store, make, apply):
    apply(store, *(PutRun(make.run(f"r-{status}", status=status)) for status in RUN_STATUSES))
    unfinished = sorted(f"r-{status}" for status in RUN_STATUSES if status not in TERMINAL_STATUSES)
    assert [run.run_id for run in store.unfinished_runs("", 100)] == unfinished
    assert [run.run_id for run in store.unfinished_runs(unfinished[0], 2)] == unfinished[1:3]
    apply(store, PatchRun("r-running", {"status": "completed"}))
    assert "r-running" not in [run.run_id for run in store.unfinished_runs("", 100)]


def test_children_of_a_run_are_listed_oldest_first(store, make, apply):
    apply(store, PutRun(make.run("parent")), PutRun(make.run("other", parent_run_id="x")))
    called = [make.run(f"c{at}", parent_run_id="parent", depth=1, created_ms=T0 + 9 - at) for at in range(3)]
    apply(store, *map(PutRun, called))
    assert store.children("parent") == called[::-1]
    assert store.children("c0") == []


def test_runs_of_an_agent_are_counted_since_a_time(store, make, apply):
    apply(store, *(PutRun(make.run(f"r{at}", created_ms=T0 + at)) for at in range(5)))
    apply(store, PutRun(make.run("a", agent_id="a2")), PutRun(make.run("b", workspace="other", created_ms=T0 + 9)))
    assert store.count_runs("w", "a1", T0 + 2) == 3
    assert store.count_runs("w", "a1", 0) == 5
    assert store.count_runs("w", "nobody", 0) == 0


def test_epochs_are_returned_for_active_runs_only(store, make, apply):
    apply(store, PutRun(make.run("r1", epoch=4)), PutRun(make.run("r2", status="cancelled", epoch=2)))
    with store.write() as transaction:
        assert transaction.lock_epochs(["r1", "r2", "nobody"]) == {"r1": 4}
        assert transaction.lock_epochs(set()) == {}


def test_a_run_that_ends_in_this_commit_has_no_epoch(store, make, apply):
    apply(store, PutRun(make.run("r1", epoch=4)))
    with store.write() as transaction:
        transaction.apply([PatchRun("r1", {"status": "completed"})])
        assert transaction.lock_epochs(["r1"]) == {}


@pytest.mark.parametrize(
    ("status", "epoch", "asked", "given"),
    [
        ("queued", 0, 1, True),
        ("running", 3, 4, True),
        ("waiting", 3, 4, True),
        ("running", 3, 3, False),
        ("running", 3, 5, False),
        ("running", 3, 2, False),
        *((status, 3, 4, False) for status in sorted(TERMINAL_STATUSES)),
    ],
)
def test_a_lease_is_given_for_the_next_epoch_of_an_active_run(store, make, apply, status, epoch, asked, given):
    before = make.run("r1", status=status, epoch=epoch, owner="host-b", lease_until_ms=T0)
    apply(store, PutRun(before))
    with store.write() as transaction:
        assert transaction.take_lease("r1", lease(asked)) is given
        assert transaction.take_lease("nobody", lease(1)) is False
    taken = make.run("r1", status=status, epoch=asked, owner="host-a", lease_until_ms=T0 + 15_000)
    assert store.run("r1") == (taken if given else before)


def test_of_two_claims_of_the_same_epoch_the_first_wins(store, make, apply):
    apply(store, PutRun(make.run("r1")))
    with store.write() as transaction:
        assert transaction.take_lease("r1", lease(1, "host-a"))
    with store.write() as transaction:
        assert not transaction.take_lease("r1", lease(1, "host-b"))
    assert store.run("r1").owner == "host-a"


def test_leases_are_renewed_for_their_owner_only(store, make, apply):
    apply(store, *(PutRun(make.run(run)) for run in ("mine", "ended", "theirs", "unasked")))
    with store.write() as transaction:
        for run, owner in (("mine", "host-a"), ("ended", "host-a"), ("theirs", "host-b"), ("unasked", "host-a")):
            assert transaction.take_lease(run, lease(1, owner))
        transaction.apply([PatchRun("ended", {"status": "completed"})])
    with store.write() as transaction:
        asked = ["mine", "ended", "theirs", "nobody"]
        assert transaction.renew_leases("host-a", asked, T0 + 99_000) == {"mine"}
        assert transaction.renew_leases("host-a", [], T0 + 99_000) == set()
    until = {run: store.run(run).lease_until_ms for run in ("mine", "ended", "theirs", "unasked")}
    assert until == {"mine": T0 + 99_000, "ended": T0 + 15_000, "theirs": T0 + 15_000, "unasked": T0 + 15_000}


def test_the_clock_of_the_store_counts_milliseconds_of_the_epoch(store):
    assert 1_600_000_000_000 < store.now_ms() < 4_000_000_000_000


def test_the_newest_run_of_each_agent_is_found_in_its_conversation(store, make, apply):
    def put(run_id, agent_id, at, **where):
        row = make.run(run_id, agent_id=agent_id, created_ms=T0 + at, **{"conversation": "room", **where})
        apply(store, PutRun(row))
        return row

    def newest(**where):
        place = {"workspace": "w", "bot": None, "conversation": "room", "thread": None, **where}
        return sorted(store.newest_runs(**place), key=lambda row: row.run_id)

    put("a1", "a", 1)
    b1 = put("b1", "b", 2)
    last = [put(f"a{number}", "a", 3) for number in range(2, 9)][-1]
    threaded, of_bot = put("c1", "c", 4, thread="t"), put("c2", "c", 5, bot="x")
    put("c3", "c", 6, conversation="elsewhere")
    put("c4", "c", 7, workspace="north")
    assert newest() == [last, b1]
    assert newest(thread="t") == [threaded]
    assert newest(bot="x") == [of_bot]
    assert newest(bot="x", thread="t") == []

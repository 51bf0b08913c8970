"""Events, state, artifacts and facts about the store itself, on every store."""

import pytest

from bollard.host.errors import Conflict
from bollard.host.store.action_rows import PutApproval, PutToolCall
from bollard.host.store.queries import Lease
from bollard.host.store.rows import (
    POLICY_KINDS,
    DropArtifact,
    DropState,
    PatchOutbox,
    PatchRun,
    PutArtifact,
    PutEvent,
    PutOutbox,
    PutPolicy,
    PutRun,
    PutState,
    PutStorage,
    PutTranscript,
)

T0 = 1_700_000_000_000


def test_an_event_is_found_by_its_source_and_id(store, make, apply):
    event = make.event(1, run_id="r1")
    apply(store, PutEvent(event))
    with store.write() as transaction:
        assert transaction.find_event("w", "web", "s1") == event
        assert transaction.find_event("other", "web", "s1") is None
        assert transaction.find_event("w", "mail", "s1") is None
        transaction.apply([PutEvent(make.event(2))])
        assert transaction.find_event("w", "web", "s2") == make.event(2)
    assert store.event("w", "e1") == event
    assert store.event("other", "e1") is None


def test_a_second_event_with_the_same_source_and_id_is_refused_completely(store, make, apply):
    apply(store, PutEvent(make.event(1)))
    with pytest.raises(Conflict):
        apply(store, PutEvent(make.event(2)), PutEvent(make.event(3, source_id="s1")))
    assert store.events("w", None, 10) == [make.event(1)]


def test_the_same_id_from_another_source_or_workspace_is_another_event(store, make, apply):
    apply(store, PutEvent(make.event(1)), PutEvent(make.event(2, source_id="s1", source="mail")))
    apply(store, PutEvent(make.event(3, source_id="s1", workspace="other")))
    assert len(store.events("w", None, 10)) == 2


def test_events_are_paged_newest_first(store, make, apply):
    apply(store, *(PutEvent(make.event(index)) for index in range(1, 8)), PutEvent(make.event(9, workspace="other")))
    assert [event.record_id for event in store.events("w", None, 3)] == [7, 6, 5]
    assert [event.record_id for event in store.events("w", 5, 10)] == [4, 3, 2, 1]


def test_state_has_counted_versions(store, make, apply):
    apply(store, PutState(make.state("k", b"1")))
    assert store.state("scope", "k") == make.state("k", b"1", version=1)
    apply(store, PutState(make.state("k", b"2")), PutState(make.state("k", b"3", updated_ms=T0 + 9)))
    assert store.state("scope", "k") == make.state("k", b"3", version=3, updated_ms=T0 + 9)
    apply(store, PutState(make.state("k", b"4", version=9)))
    assert store.state("scope", "k").version == 9


def test_dropped_state_starts_again(store, make, apply):
    apply(store, PutState(make.state("k", b"1")), PutState(make.state("k", b"2")))
    apply(store, DropState("scope", "k"), DropState("scope", "never"))
    assert store.state("scope", "k") is None
    apply(store, PutState(make.state("k", b"3")), DropState("scope", "k"), PutState(make.state("k", b"4")))
    assert store.state("scope", "k") == make.state("k", b"4", version=1)


def test_a_transaction_sees_its_own_state(store, make, apply):
    apply(store, PutState(make.state("k", b"1")))
    with store.write() as transaction:
        assert transaction.find_state("scope", "k").version == 1
        transaction.apply([PutState(make.state("k", b"2"))])
        assert transaction.find_state("scope", "k") == make.state("k", b"2", version=2)
        assert transaction.find_state("other", "k") is None


def test_an_expired_value_is_absent_before_the_sweep(store, make, apply):
    apply(store, PutState(make.state("k", b"1", expires_ms=T0 + 5)), PutState(make.state("stays", b"1")))
    assert store.state("scope", "k", T0 + 4) is not None
    assert store.state("scope", "k", T0 + 5) is None
    assert [row.key for row in store.states("scope", "", 10, T0 + 4)] == ["k", "stays"]
    assert [row.key for row in store.states("scope", "", 10, T0 + 5)] == ["stays"]
    assert [row.key for row in store.states("scope", "", 1, T0 + 5)] == ["stays"]
    with store.write() as transaction:
        assert transaction.find_state("scope", "k").version == 1


def test_without_a_time_the_clock_of_the_store_decides_about_expiry(store, make, apply):
    now = store.now_ms()
    apply(store, PutState(make.state("old", b"1", expires_ms=now - 1)))
    apply(store, PutState(make.state("new", b"1", expires_ms=now + 3_600_000)))
    assert store.state("scope", "old") is None
    assert store.state("scope", "new") is not None
    assert [row.key for row in store.states("scope", "", 10)] == ["new"]


@pytest.mark.parametrize("swept", [False, True])
def test_a_value_written_after_expiry_has_version_one_before_and_after_the_sweep(store, make, apply, swept):
    apply(store, *(PutState(make.state("k", b"1", expires_ms=T0 + 5)) for _ in range(3)))
    apply(store, PutState(make.state("k", b"2", expires_ms=T0 + 9, updated_ms=T0 + 4)))
    assert store.state("scope", "k", T0).version == 4
    if swept:
        with store.write() as transaction:
            assert transaction.drop_expired(T0 + 9, 10) == 1
    apply(store, PutState(make.state("k", b"3", updated_ms=T0 + 9)))
    assert store.state("scope", "k", T0 + 9) == make.state("k", b"3", version=1, updated_ms=T0 + 9)


def test_the_size_of_a_scope_is_the_bytes_of_its_keys_and_values(store, make, apply):
    apply(store, PutState(make.state("键", b"\x00\xff12")), PutState(make.state("b", b"", expires_ms=1)))
    apply(store, PutState(make.state("b", b"foreign", scope_key="other")))
    with store.write() as transaction:
        assert transaction.state_size("scope", 0) == 3 + 4 + 1
        assert transaction.state_size("scope", 1) == 3 + 4  # what has expired is not swept yet, and counts no more
        transaction.apply([DropState("scope", "b"), PutState(make.state("键", b"1"))])
        assert transaction.state_size("scope", 0) == 3 + 1
        assert transaction.state_size("nobody", 0) == 0


def test_state_is_listed_by_key_in_its_scope(store, make, apply):
    keys = ["b", "a", "B", "键", "a.b"]
    apply(store, *(PutState(make.state(key, b"1")) for key in keys))
    apply(store, PutState(make.state("zz", b"1", scope_key="other")))
    assert [row.key for row in store.states("scope", "", 100)] == sorted(keys)
    assert [row.key for row in store.states("scope", "a", 2)] == ["a.b", "b"]


def test_an_artifact_is_saved_and_can_be_replaced(store, make, apply):
    artifact = make.artifact("x", sha256="d" * 64, metadata=b'{"k":1}')
    apply(store, PutArtifact(artifact))
    assert store.artifact("w", "x") == artifact
    assert store.artifact("other", "x") is None
    apply(store, PutArtifact(make.artifact("x", name="new.txt", sha256="e" * 64)))
    assert (store.artifact("w", "x").name, store.artifact("w", "x").sha256) == ("new.txt", "e" * 64)


def test_an_artifact_without_content_does_not_replace_an_existing_one(store, make, apply):
    bare, other = make.artifact("x"), make.artifact("x", name="other.txt")
    apply(store, PutArtifact(bare), PutArtifact(other))
    assert store.artifact("w", "x") == bare
    whole = make.artifact("x", sha256="d" * 64)
    apply(store, PutArtifact(other), PutArtifact(whole), PutArtifact(other))
    assert store.artifact("w", "x") == whole
    apply(store, PutArtifact(other))
    assert store.artifact("w", "x") == whole


def test_an_expired_artifact_can_be_replaced(store, make, apply):
    whole = make.artifact("x", sha256="d" * 64, created_ms=5, expires_ms=10)
    early, late = make.artifact("x", created_ms=9), make.artifact("x", created_ms=10, expires_ms=20)
    apply(store, PutArtifact(whole), PutArtifact(early))
    assert store.artifact("w", "x") == whole
    apply(store, PutArtifact(late))
    assert store.artifact("w", "x") == late


def test_a_dropped_artifact_is_absent_also_in_its_own_commit(store, make, apply):
    one, two = make.artifact("x", sha256="d" * 64), make.artifact("y")
    apply(store, DropArtifact("w", "never"), PutArtifact(one), PutArtifact(two), DropArtifact("w", "x"))
    assert store.artifact("w", "x") is None
    assert store.artifact("w", "y") == two
    apply(store, DropArtifact("other", "y"), DropArtifact("w", "x"), PutArtifact(one))
    assert (store.artifact("w", "x"), store.artifact("w", "y")) == (one, two)


def test_uploads_of_a_workspace_are_listed_by_id_in_pages(store, make, apply):
    files = [make.artifact(f"file_{index}", source="upload", run_id=None, sha256="d" * 64) for index in range(4)]
    others = [make.artifact("file_zz"), make.artifact("file_a", source="upload", workspace="other")]
    apply(store, *map(PutArtifact, [*reversed(files), *others]))
    assert store.uploads("w", "file_", 10) == files
    assert store.uploads("w", "file_", 3) == files[:3]
    assert store.uploads("w", "file_2", 3) == files[3:]
    assert store.uploads("empty", "file_", 3) == []


def test_digests_of_artifacts_and_storage_are_listed_once_in_order(store, make, apply):
    for index, digest in enumerate(["c", "a", "b", "a"]):
        apply(store, PutArtifact(make.artifact(f"x{index}", sha256=digest * 64)))
    apply(store, PutArtifact(make.artifact("nothing")))
    apply(store, *(PutStorage(make.stored(f"k{digest}", sha256=digest * 64)) for digest in ("b", "d")))
    assert store.artifact_digests("", 10) == [letter * 64 for letter in "abcd"]
    assert store.artifact_digests("a" * 64, 1) == ["b" * 64]
    assert store.artifact_digests("b" * 64, 2) == ["c" * 64, "d" * 64]


def test_a_sweep_drops_only_expired_rows(store, make, apply):
    apply(store, *(PutState(make.state(f"k{at}", b"1", expires_ms=T0 + at)) for at in (1, 2, 3)))
    apply(store, PutState(make.state("for-ever", b"1")), PutArtifact(make.artifact("for-ever")))
    apply(store, *(PutArtifact(make.artifact(f"x{at}", expires_ms=T0 + at)) for at in (1, 2, 3)))
    with store.write() as transaction:
        assert transaction.drop_expired(T0 + 2, 3) == 3
        assert transaction.drop_expired(T0 + 2, 3) == 1
        assert transaction.drop_expired(T0 + 2, 3) == 0
    assert [row.key for row in store.states("scope", "", 10, T0)] == ["for-ever", "k3"]
    assert [bool(store.artifact("w", name)) for name in ("x1", "x2", "x3", "for-ever")] == [False, False, True, True]


def test_facts_about_the_store_are_saved_and_replaced(store, reopen):
    with store.write() as transaction:
        transaction.put_meta("incarnation", "one")
        transaction.put_meta("incarnation", "two")
    reopen(store)
    assert (store.meta("incarnation"), store.meta("unknown")) == ("two", None)


def test_repeated_projections_are_equal(store, make, apply):
    changes = [
        PutEvent(make.event(1)),
        PutRun(make.run("r1")),
        PatchRun("r1", {"status": "completed", "last_seq": 3}),
        PutTranscript(make.said(2, "你好 world")),
        PutState(make.state("k", b"1")),
        PutState(make.state("k", b"2")),
        PutStorage(make.stored("k")),
        PutArtifact(make.artifact("x")),
        PutOutbox(make.outbox("d")),
        PatchOutbox("d", {"status": "sent", "messages": b'["m1"]'}),
        PutToolCall(make.call("c")),
        PutApproval(make.approval("a")),
        *(PutPolicy(kind, make.policy("a")) for kind in POLICY_KINDS),
    ]
    apply(store, *changes)
    before = store.dump_projections()
    names = (
        "events",
        "runs",
        "transcript",
        "conversations",
        "state",
        "storage",
        "artifacts",
        "outbox",
        "tool_calls",
        "approvals",
        *(f"{kind}s" for kind in POLICY_KINDS),
    )
    assert {table: len(rows) for table, rows in before.items()} == dict.fromkeys(names, 1)
    with store.write() as transaction:
        transaction.clear_projections()
        transaction.apply(changes)
    assert store.dump_projections() == before
    assert [row.seq for row in store.search(make.room(), [("world",)])] == [2]


def test_a_dump_distinguishes_values_and_leases(store, make, apply):
    apply(store, PutRun(make.run("r1")))
    before = store.dump_projections()
    with store.write() as transaction:
        transaction.renew_leases("nobody", ["r1"], 1)
    assert store.dump_projections() == before
    with store.write() as transaction:
        assert transaction.take_lease("r1", Lease(owner="a", epoch=1, until_ms=5))
    leased = store.dump_projections()
    assert leased != before
    with store.write() as transaction:
        assert transaction.renew_leases("a", ["r1"], 6) == {"r1"}
    assert store.dump_projections() != leased
    with store.write() as transaction:
        assert transaction.renew_leases("a", ["r1"], 5) == {"r1"}
    before = store.dump_projections()
    apply(store, PatchRun("r1", {"last_seq": 1}))
    assert store.dump_projections() != before


def test_every_store_dumps_the_same(memory_store, sqlite_store, postgres_store, make, apply):
    changes = [PutEvent(make.event(1)), PutRun(make.run("r1")), PutTranscript(make.said(2, "hi", content_json=b"{}"))]
    for store in (memory_store, sqlite_store, postgres_store):
        apply(store, *changes, PutState(make.state("k", b"\x00")), PutArtifact(make.artifact("x")))
        apply(store, PutOutbox(make.outbox("d")), PutOutbox(make.outbox("e", record_id=2, preview=True)))
        apply(store, PutToolCall(make.call("c", flow=3)), PutApproval(make.approval("a")))
        apply(
            store, PutStorage(make.stored("k")), *(PutPolicy(kind, make.policy("p")) for kind in ("agent", "binding"))
        )
    assert memory_store.dump_projections() == sqlite_store.dump_projections() == postgres_store.dump_projections()


def test_cleared_projections_are_empty_and_the_log_is_not(store, make, apply, say):
    with store.write() as transaction:
        transaction.add_records([make.record(1)])
        transaction.put_meta("k", "v")
    apply(store, PutEvent(make.event(1)), PutRun(make.run("r1")), PutStorage(make.stored("k")))
    apply(store, PutPolicy("agent", make.policy("a")), PutPolicy("binding", make.policy("b")))
    say(store, "hello")
    with store.write() as transaction:
        transaction.clear_projections()
    assert not any(store.dump_projections().values())
    assert store.search(make.room(), [("hello",)]) == []
    assert len(store.records(0, 10)) == 1
    assert store.meta("k") == "v"

"""Saved resources, plugin storage, and kept rows beside the log, on every store."""

import pytest

from bollard.host.store.rows import POLICY_KINDS, DropKept, DropPolicy, DropStorage, PutKept, PutPolicy, PutStorage

T0 = 1_700_000_000_000


@pytest.mark.parametrize("kind", POLICY_KINDS)
def test_a_policy_is_saved_replaced_and_deleted(store, make, apply, reopen, kind):
    apply(store, PutPolicy(kind, make.policy("one")))
    apply(store, PutPolicy(kind, make.policy("one", revision=2, body=b'{"b":2}', updated_ms=T0 + 1)))
    reopen(store)
    assert store.policies(kind, "w") == [make.policy("one", revision=2, body=b'{"b":2}', updated_ms=T0 + 1)]
    apply(store, DropPolicy(kind, "w", "one"), DropPolicy(kind, "w", "nobody"))
    assert store.policies(kind, "w") == []


def test_policies_are_listed_by_id_in_their_workspace_and_kind(store, make, apply):
    apply(store, *(PutPolicy("agent", make.policy(name)) for name in ("b", "a", "B")))
    apply(store, PutPolicy("agent", make.policy("c", workspace="other")), PutPolicy("binding", make.policy("d")))
    assert [row.id for row in store.policies("agent", "w")] == ["B", "a", "b"]
    assert [row.id for row in store.policies("binding", "w")] == ["d"]
    apply(store, DropPolicy("binding", "w", "a"), DropPolicy("agent", "other", "b"))
    assert [row.id for row in store.policies("agent", "w")] == ["B", "a", "b"]


def test_a_commit_applies_policies_in_order(store, make, apply):
    changes = [PutPolicy("agent", make.policy("a")), DropPolicy("agent", "w", "a")]
    apply(store, *changes)
    assert store.policies("agent", "w") == []
    apply(store, *changes, PutPolicy("agent", make.policy("a", revision=3)))
    assert store.policies("agent", "w") == [make.policy("a", revision=3)]


def test_a_stored_value_is_saved_replaced_and_deleted(store, make, apply):
    apply(store, PutStorage(make.stored("k")))
    apply(store, PutStorage(make.stored("k", sha256="6" * 64, size_bytes=2**40)))
    assert store.storage("area", "k") == make.stored("k", sha256="6" * 64, size_bytes=2**40)
    assert store.storage("other", "k") is None
    assert store.artifact_digests("", 10) == ["6" * 64]
    apply(store, DropStorage("area", "k"))
    assert store.storage("area", "k") is None
    assert store.artifact_digests("", 10) == []


def test_stored_values_are_listed_by_key_in_their_area(store, make, apply):
    keys = ["b", "a", "B", "键", "a.b"]
    apply(store, *(PutStorage(make.stored(key)) for key in keys), PutStorage(make.stored("zz", area_key="other")))
    assert [row.key for row in store.storages("area", "", 100)] == sorted(keys)
    assert [row.key for row in store.storages("area", "a", 2)] == ["a.b", "b"]


def test_policies_of_every_workspace_are_ordered_by_workspace_and_id(store, make, apply):
    rows = [make.policy("b", workspace="w"), make.policy("a", workspace="w"), make.policy("c", workspace="v")]
    apply(store, *(PutPolicy("user", row) for row in rows), PutPolicy("key", make.policy("k")))
    assert [(row.workspace, row.id) for row in store.policies_everywhere("user")] == [
        ("v", "c"),
        ("w", "a"),
        ("w", "b"),
    ]


def test_a_policy_of_an_unknown_kind_is_refused(store, make):
    with pytest.raises((ValueError, KeyError)), store.write() as transaction:
        transaction.apply([PutPolicy("meta; DROP TABLE meta", make.policy("x"))])
    assert store.policies_everywhere("agent") == []


def keep(store, *changes):
    with store.write() as transaction:
        transaction.keep(changes)


def test_a_kept_row_is_saved_replaced_and_deleted(store, make, reopen):
    keep(store, PutKept(make.kept("one")), PutKept(make.kept("one", workspace="v")))
    keep(store, PutKept(make.kept("one", body=b"new", updated_ms=T0 + 1)))
    reopen(store)
    assert store.kept("session", "w", "one") == make.kept("one", body=b"new", updated_ms=T0 + 1)
    assert store.kept("session", "v", "one") == make.kept("one", workspace="v")
    assert store.kept("password", "w", "one") is None
    keep(store, DropKept("session", "w", "one"), DropKept("session", "w", "nobody"))
    assert store.kept("session", "w", "one") is None
    assert store.kept("session", "v", "one") == make.kept("one", workspace="v")


def test_one_commit_keeps_and_drops_in_order(store, make):
    keep(store, PutKept(make.kept("a")), DropKept("session", "w", "a"))
    assert store.kept("session", "w", "a") is None
    keep(store, DropKept("session", "w", "a"), PutKept(make.kept("a")))
    assert store.kept("session", "w", "a") == make.kept("a")


def test_kept_rows_are_listed_by_kind_and_workspace(store, make):
    rows = [make.kept("b"), make.kept("a"), make.kept("c", workspace="v"), make.kept("d", kind="password")]
    keep(store, *map(PutKept, rows))
    assert [row.id for row in store.all_kept("session", "w")] == ["a", "b"]
    assert [row.id for row in store.all_kept("session")] == ["c", "a", "b"]
    assert store.all_kept("answer") == []


def test_an_expired_kept_row_is_absent_and_a_sweep_removes_it(store, make):
    keep(store, PutKept(make.kept("old", expires_ms=T0)), PutKept(make.kept("new", expires_ms=T0 + 10)))
    keep(store, PutKept(make.kept("always")))
    assert store.kept("session", "w", "old", T0 - 1) is not None
    assert store.kept("session", "w", "old", T0) is None
    assert [row.id for row in store.all_kept("session", "w", T0)] == ["always", "new"]
    with store.write() as transaction:
        assert transaction.drop_expired(T0, 1) == 1
        assert transaction.drop_expired(T0, 1) == 0
    assert [row.id for row in store.all_kept("session", "w", 0)] == ["always", "new"]


def test_kept_rows_are_not_a_projection(store, make):
    keep(store, PutKept(make.kept("a")))
    assert "kept" not in store.dump_projections()
    with store.write() as transaction:
        transaction.clear_projections()
    assert store.kept("session", "w", "a") == make.kept("a")


def test_a_failed_commit_changes_no_kept_row(store, make):
    keep(store, PutKept(make.kept("a")))

    def failing():
        yield PutKept(make.kept("b"))
        yield DropKept("session", "w", "a")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), store.write() as transaction:
        transaction.keep(failing())
    assert [row.id for row in store.all_kept("session")] == ["a"]

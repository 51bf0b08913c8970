"""What people saved and what plugins stored, on every store."""

import pytest

from bollard.host.store.rows import DropPolicy, DropStorage, PutPolicy, PutStorage

T0 = 1_700_000_000_000


@pytest.mark.parametrize("kind", ["agent", "binding"])
def test_a_policy_comes_back_is_replaced_and_goes(store, make, apply, reopen, kind):
    apply(store, PutPolicy(kind, make.policy("one")))
    apply(store, PutPolicy(kind, make.policy("one", revision=2, body=b'{"b":2}', updated_ms=T0 + 1)))
    reopen(store)
    assert store.policies(kind, "w") == [make.policy("one", revision=2, body=b'{"b":2}', updated_ms=T0 + 1)]
    apply(store, DropPolicy(kind, "w", "one"), DropPolicy(kind, "w", "nobody"))
    assert store.policies(kind, "w") == []


def test_policies_are_listed_by_id_in_their_workspace_and_kind_alone(store, make, apply):
    apply(store, *(PutPolicy("agent", make.policy(name)) for name in ("b", "a", "B")))
    apply(store, PutPolicy("agent", make.policy("c", workspace="other")), PutPolicy("binding", make.policy("d")))
    assert [row.id for row in store.policies("agent", "w")] == ["B", "a", "b"]
    assert [row.id for row in store.policies("binding", "w")] == ["d"]
    apply(store, DropPolicy("binding", "w", "a"), DropPolicy("agent", "other", "b"))
    assert [row.id for row in store.policies("agent", "w")] == ["B", "a", "b"]


def test_a_commit_carries_policies_out_in_order(store, make, apply):
    changes = [PutPolicy("agent", make.policy("a")), DropPolicy("agent", "w", "a")]
    apply(store, *changes)
    assert store.policies("agent", "w") == []
    apply(store, *changes, PutPolicy("agent", make.policy("a", revision=3)))
    assert store.policies("agent", "w") == [make.policy("a", revision=3)]


def test_a_stored_value_comes_back_is_replaced_and_goes(store, make, apply):
    apply(store, PutStorage(make.stored("k")))
    apply(store, PutStorage(make.stored("k", sha256="6" * 64, size_bytes=2**40)))
    assert store.storage("area", "k") == make.stored("k", sha256="6" * 64, size_bytes=2**40)
    assert store.storage("other", "k") is None
    assert store.artifact_digests("", 10) == ["6" * 64]
    apply(store, DropStorage("area", "k"))
    assert store.storage("area", "k") is None
    assert store.artifact_digests("", 10) == []


def test_stored_values_are_listed_by_key_in_their_area_alone(store, make, apply):
    keys = ["b", "a", "B", "键", "a.b"]
    apply(store, *(PutStorage(make.stored(key)) for key in keys), PutStorage(make.stored("zz", area_key="other")))
    assert [row.key for row in store.storages("area", "", 100)] == sorted(keys)
    assert [row.key for row in store.storages("area", "a", 2)] == ["a.b", "b"]

"""Expectations about state: judged inside the commit, one after the other, also those of one entry."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore

from bollard.host.log.entries import Committed, Entry, ExpectationResult, StateExpectation
from bollard.host.log.rebuild import rebuild
from bollard.host.log.records import RunFacts, data_of, scope_key
from bollard.host.log.writer import Writer
from bollard.host.store.rows import StateRow
from bollard.host.store.store import Store
from bollard.trust.keys import SigningKey

T0 = 1_700_000_000_000
QUOTA = 40
Change = dict[str, Any]


class Desk:
    """Writes changes of one run's state."""

    def __init__(self, store: Store, scribe: Any, blobs: Any, key: SigningKey, run_id: str = "run_1") -> None:
        self.store = store
        self._scribe = scribe
        self._facts: RunFacts = scribe.facts(run_id)
        self._writer = Writer(store, blobs, ManualClock(), incarnation=run_id, key=key)
        self._writer.turn([scribe.first(self._facts)])
        self._seq = 10

    def write(self, changes: list[Change]) -> list[ExpectationResult]:
        """All of them in one entry; returns the outcome of each."""
        entry = Entry(
            records=[self._record(change) for change in changes],
            expects=[self._expectation(number, change) for number, change in enumerate(changes)],
            fence=(self._facts.run_id, 1),
        )
        (fate,) = self._writer.turn([entry])
        assert isinstance(fate, Committed), fate
        return list(fate.judged)

    def ids(self) -> list[int]:
        """Of the records that were written, in order."""
        return [row.id for row in self.store.records_of_run(self._facts.run_id, 10, 100)]

    def write_as_before(self, changes: list[Change]) -> None:
        """As they were written before records had versions."""
        records = [self._record(change) for change in changes]
        self._writer.turn([Entry(records=records, fence=(self._facts.run_id, 1))])

    def kept(self, now_ms: int) -> list[StateRow]:
        return self.store.states(scope_key(self._facts, "conversation"), "", 100, now_ms)

    def types(self) -> list[str]:
        return [row.type for row in self.store.records_of_run(self._facts.run_id, 10, 100)]

    def _record(self, change: Change) -> Any:
        self._seq += 1
        data = {"scope": "conversation", "key": change["key"]}
        if "value" not in change:
            return self._scribe.record(self._facts, "state.deleted", data, self._seq, created_ms=change["at"])
        data |= {"value": change["value"], "expires_ms": change.get("expires_ms")}
        return self._scribe.record(self._facts, "state.updated", data, self._seq, created_ms=change["at"])

    def _expectation(self, number: int, change: Change) -> StateExpectation:
        deleted = "value" not in change
        return StateExpectation(
            record=number,
            otherwise=("state.refused", b"{}"),
            scope_key=scope_key(self._facts, "conversation"),
            key=change["key"],
            now_ms=change["at"],
            version=change.get("version"),
            size=0 if deleted else len(msgspec.json.encode(change["value"])) + len(change["key"].encode()),
            quota=QUOTA,
            expires_ms=change.get("expires_ms"),
        )


@pytest.fixture
def desk(store: Store, scribe: Any, blobs: Any, signing_key: SigningKey) -> Desk:
    return Desk(store, scribe, blobs, signing_key)


def put(key: str, value: Any = 0, **more: Any) -> Change:
    return {"key": key, "value": value, "at": T0, **more}


def test_changes_of_one_key_in_one_entry_see_each_other(desk: Desk) -> None:
    desk.write([put("before")])
    (before,) = desk.ids()
    first, second, _, third, _, last = range(before + 1, before + 7)
    deleted = {"key": "k", "at": T0}
    changes = [put("k"), put("k"), put("k", version=first), put("k", version=second), deleted, put("k", version=0)]

    judged = desk.write(changes)

    assert judged == [
        ExpectationResult(first),
        ExpectationResult(second, existed=True),
        ExpectationResult(second, "version", existed=True),
        ExpectationResult(third, existed=True),
        ExpectationResult(0, existed=True),
        ExpectationResult(last),
    ]
    updated = "state.updated"
    assert desk.types() == [updated, updated, updated, "state.refused", updated, "state.deleted", updated]
    assert [row.version for row in desk.kept(T0)] == [before, last]


def test_a_version_is_the_number_of_its_record(desk: Desk) -> None:
    desk.write([put("a"), put("b", version=7), put("c")])

    told = [row.version for row in desk.kept(T0)]
    rows = [row for row in desk.store.records_of_run("run_1", 10, 100) if row.type == "state.updated"]
    assert told == [row.id for row in rows] == [data_of(row)["version"] for row in rows]
    before = desk.store.dump_projections()
    rebuild(desk.store)
    assert desk.store.dump_projections() == before


def test_no_version_is_reused_after_a_delete_an_expiry_or_a_sweep(desk: Desk) -> None:
    seen: list[int] = []
    for round_ in range(3):
        at = T0 + 10 * round_
        (lived,) = desk.write([put("k", version=0, at=at, expires_ms=at + 5)])
        with desk.store.write() as transaction:
            transaction.drop_expired(at + 5 if round_ else 0, 10)
        (deleted_later,) = desk.write([put("k", version=0, at=at + 6)])
        (stale,) = desk.write([put("k", version=lived.version, at=at + 7)])
        desk.write([{"key": "k", "at": at + 8, "version": deleted_later.version}])
        seen += [lived.version, deleted_later.version]
        assert stale == ExpectationResult(deleted_later.version, "version", existed=True)

    assert len(set(seen)) == len(seen)
    before = desk.store.dump_projections()
    rebuild(desk.store)
    assert desk.store.dump_projections() == before


def test_a_value_with_a_counted_version_is_updated_by_that_version(desk: Desk) -> None:
    desk.write_as_before([put("k"), put("k", at=T0 + 1), put("gone", at=T0 + 1)])
    assert [(row.key, row.version) for row in desk.kept(T0 + 1)] == [("gone", 1), ("k", 2)]
    before = desk.store.dump_projections()
    rebuild(desk.store)
    assert desk.store.dump_projections() == before

    desk.write([{"key": "gone", "at": T0 + 2}])
    again, stale, met = desk.write(
        [put("gone", version=0, at=T0 + 3), put("gone", version=1, at=T0 + 3), put("k", version=2, at=T0 + 3)]
    )

    assert (again.unmet, stale.unmet, met.unmet) == ("", "version", "")
    assert min(again.version, met.version) > max(desk.ids()[:3])
    before = desk.store.dump_projections()
    rebuild(desk.store)
    assert desk.store.dump_projections() == before


def test_the_last_space_of_a_scope_is_given_once_in_one_entry(desk: Desk) -> None:
    large = "x" * 16  # with its quotes and its key 19 bytes: two of them fit

    judged = desk.write([put("a", large), put("b", large), put("c", large), put("a", 1), put("c", large)])

    assert [(each.existed, each.unmet) for each in judged] == [
        (False, ""),
        (False, ""),
        (False, "quota"),
        (True, ""),
        (False, ""),
    ]
    assert [row.key for row in desk.kept(T0)] == ["a", "b", "c"]


def test_a_value_that_expires_within_its_entry_is_absent_for_later_changes(desk: Desk) -> None:
    judged = desk.write(
        [put("k", expires_ms=T0 + 5), put("k", version=0, at=T0 + 4), put("k", at=T0 + 5), put("k", at=T0 + 6)]
    )

    first, _, third, last = desk.ids()
    assert judged == [
        ExpectationResult(first),
        ExpectationResult(first, "version", existed=True),
        ExpectationResult(third),
        ExpectationResult(last, existed=True),
    ]
    assert [row.version for row in desk.kept(T0 + 6)] == [last]


def test_an_expired_value_frees_its_quota_before_the_sweep(desk: Desk) -> None:
    large = "x" * 16  # with its quotes and its key 19 bytes: two of them fit
    desk.write([put("a", large, expires_ms=T0 + 5), put("b", large)])

    early, late, none_left = desk.write(
        [put("c", large, at=T0 + at) for at in (4,)]
        + [put("c", large, at=T0 + 5, expires_ms=T0 + 6), put("d", large, at=T0 + 5)]
    )
    (after,) = desk.write([put("d", large, at=T0 + 6)])

    assert [each.unmet for each in (early, late, none_left, after)] == ["quota", "", "quota", ""]


changes_of_state = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.one_of(st.none(), st.integers(0, 12)),
        st.sampled_from([None, None, None, 0, 1, 3, 4, 5]),
        st.integers(0, 3),
        st.sampled_from([None, 1, 4]),
    ),
    max_size=8,
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(steps=changes_of_state)
def test_an_entry_of_many_changes_equals_many_entries_of_one_change(
    steps: list[tuple[Any, ...]], scribe: Any, blobs: Any, signing_key: SigningKey
) -> None:
    changes, at = list[Change](), T0
    for key, length, version, pause, life in steps:
        at += pause
        change: Change = {"key": key, "at": at, "version": version}
        if length is not None:
            change |= {"value": "x" * length, "expires_ms": None if life is None else at + life}
        changes.append(change)
    together = Desk(MemoryStore(), scribe, blobs, signing_key)
    apart = Desk(MemoryStore(), scribe, blobs, signing_key)

    judged = together.write(changes)

    assert judged == [apart.write([change])[0] for change in changes]
    assert together.types() == apart.types()
    assert together.kept(at) == apart.kept(at)

"""Expectations about state: judged inside the commit, one after the other, also those of one entry."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bollard.host.clock import ManualClock
from bollard.host.log.entries import Committed, Entry, Judgement, StateExpectation
from bollard.host.log.facts import RunFacts, scope_key
from bollard.host.log.writer import Writer
from bollard.host.store.boundary import Store
from bollard.host.store.memory import MemoryStore
from bollard.host.store.rows import StateRow
from bollard.trust import SigningKey

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

    def write(self, changes: list[Change]) -> list[Judgement]:
        """All of them in one entry; what became of each."""
        entry = Entry(
            records=[self._record(change) for change in changes],
            expects=[self._expectation(number, change) for number, change in enumerate(changes)],
            fence=(self._facts.run_id, 1),
        )
        (fate,) = self._writer.turn([entry])
        assert isinstance(fate, Committed), fate
        return list(fate.judged)

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


def test_changes_of_one_key_in_one_entry_count_on(desk: Desk) -> None:
    deleted = {"key": "k", "at": T0}
    changes = [put("k"), put("k"), put("k", version=1), put("k", version=2), deleted, put("k", version=0)]

    judged = desk.write(changes)

    assert judged == [
        Judgement(1),
        Judgement(2),
        Judgement(2, "version"),
        Judgement(3),
        Judgement(0),
        Judgement(1),
    ]
    updated = "state.updated"
    assert desk.types() == [updated, updated, "state.refused", updated, "state.deleted", updated]
    assert [row.version for row in desk.kept(T0)] == [1]


def test_the_last_room_of_a_scope_is_given_once_in_one_entry(desk: Desk) -> None:
    large = "x" * 16  # with its quotes and its key 19 bytes: two of them fit

    judged = desk.write([put("a", large), put("b", large), put("c", large), put("a", 1), put("c", large)])

    assert [(each.version, each.unmet) for each in judged] == [(1, ""), (1, ""), (0, "quota"), (2, ""), (1, "")]
    assert [row.key for row in desk.kept(T0)] == ["a", "b", "c"]


def test_a_value_that_expires_within_its_entry_is_absent_for_what_follows(desk: Desk) -> None:
    judged = desk.write(
        [put("k", expires_ms=T0 + 5), put("k", version=0, at=T0 + 4), put("k", at=T0 + 5), put("k", at=T0 + 6)]
    )

    assert judged == [Judgement(1), Judgement(1, "version"), Judgement(1), Judgement(2)]
    assert [row.version for row in desk.kept(T0 + 6)] == [2]


changes_of_state = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.one_of(st.none(), st.integers(0, 12)),
        st.sampled_from([None, None, 0, 1, 2]),
        st.integers(0, 3),
        st.sampled_from([None, 1, 4]),
    ),
    max_size=8,
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(steps=changes_of_state)
def test_an_entry_of_many_changes_ends_as_many_entries_of_one_do(
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

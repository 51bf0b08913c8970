"""F15: a host does not write behind a changed end of the log, until an operator decides."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doubles.manual_clock import ManualClock

from bollard.host.errors import LogBroken
from bollard.host.limits import HEAD_RECORDS
from bollard.host.log import tail
from bollard.host.log.chain import Chains, new_head
from bollard.host.log.entries import Entry
from bollard.host.log.records import data_of
from bollard.host.log.tail import broken_tail
from bollard.host.log.writer import Writer
from bollard.host.store.rows import HeadRow, RecordRow
from bollard.host.store.store import Store
from bollard.trust.keys import SigningKey

Log = tuple[list[RecordRow], list[HeadRow]]


@pytest.fixture
def log(signing_key: SigningKey, clock: ManualClock, scribe: Any) -> Log:
    """Records of an older start and of the newest, that in two workspaces, with a head at the fourth of the first."""
    older = Chains("older", signing_key, clock, every_records=HEAD_RECORDS, every_s=60)
    rows = older.chain([scribe.note(n=n) for n in range(3)], 1)
    heads = older.due_heads(closing=True)
    clock.advance(100)
    newer = Chains("newer", signing_key, clock, every_records=HEAD_RECORDS, every_s=60)
    rows += newer.chain([scribe.note(n=n) for n in range(4)], 4)
    rows += newer.chain([replace(scribe.note(n=n), workspace="other") for n in range(2)], 8)
    heads += newer.due_heads()
    return [*rows, *newer.chain([scribe.note(n=n) for n in range(2)], 10)], heads


def _put(store: Store, rows: list[RecordRow], heads: list[HeadRow]) -> None:
    with store.write() as transaction:
        transaction.next_record_ids(11)
        transaction.add_records(rows)
        for head in heads:
            transaction.add_head(head)


@pytest.fixture
def start(blobs: Any, signing_key: SigningKey, clock: ManualClock) -> Callable[..., Writer]:
    def start(store: Store, incarnation: str = "next", broken_log: str = "") -> Writer:
        writer = Writer(store, blobs, clock, incarnation=incarnation, key=signing_key, broken_log=broken_log)
        writer.open()
        return writer

    return start


def _changed(log: Log, record_id: int, **changes: Any) -> Log:
    rows, heads = log
    return [replace(row, **changes) if row.id == record_id else row for row in rows], heads


def _rewritten(log: Log, record_id: int, upto: int, key: SigningKey, clock: ManualClock, scribe: Any) -> Log:
    """A part of the newest chain with a changed record, hashes and all."""
    chains = Chains("newer", key, clock, every_records=HEAD_RECORDS, every_s=60)
    made = chains.chain([scribe.note(n=90 + row.id if row.id >= record_id else row.id - 4) for row in log[0][3:7]], 4)
    by_id = {row.id: row for row in made if row.id <= upto}
    return [by_id.get(row.id, row) for row in log[0]], log[1]


SPOILT: dict[str, tuple[Callable[[Log], Log], str]] = {
    "data behind the last head": (lambda log: _changed(log, 11, data=b'{"n":9}'), "newer:6"),
    "the newest hash": (lambda log: _changed(log, 11, hash="0" * 64), "newer:6"),
    "a type before the last head": (lambda log: _changed(log, 5, type="else"), "newer:2"),
    "data of the other workspace": (lambda log: _changed(log, 9, data=b"{}"), "newer:2"),
    "the first data": (lambda log: _changed(log, 4, data=b"{}"), "newer:1"),
    "a record in the middle": (lambda log: ([row for row in log[0] if row.id != 6], log[1]), "newer:3"),
    "all of the newest": (lambda log: ([row for row in log[0] if row.id < 7], log[1]), "newer:2"),
    "every record": (lambda log: ([], log[1]), "newer:4"),
    "the hash of a head": (lambda log: (log[0], [replace(head, hash="0" * 64) for head in log[1]]), "newer:4"),
    "the signature of a head": (
        lambda log: (log[0], [replace(head, signature=bytes(64)) for head in log[1]]),
        "newer:4",
    ),
}


def test_a_sound_log_is_continued(store: Store, log: Log, start: Callable[..., Writer]) -> None:
    _put(store, *log)
    start(store)
    assert [row.type for row in store.records(0, 100)] == ["note"] * 11


@pytest.mark.parametrize("kind", SPOILT)
def test_a_log_with_a_changed_end_is_not_continued(
    store: Store, log: Log, start: Callable[..., Writer], kind: str
) -> None:
    spoil, name = SPOILT[kind]
    _put(store, *spoil(log))
    before = store.records(0, 100), store.heads("default"), store.heads("other")
    for accepted in ("", "older:1", "newer:99"):
        with pytest.raises(LogBroken) as refused:
            start(store, broken_log=accepted)
        assert refused.value.details["name"] == name
        assert name in refused.value.hint
        assert not refused.value.retryable
    assert (store.records(0, 100), store.heads("default"), store.heads("other")) == before


@pytest.mark.parametrize("kind", SPOILT)
def test_an_accepted_break_is_continued_once_with_a_gap_record(
    store: Store, log: Log, start: Callable[..., Writer], clock: ManualClock, kind: str, scribe: Any
) -> None:
    spoil, name = SPOILT[kind]
    _put(store, *spoil(log))
    clock.advance(1)
    writer = start(store, broken_log=name)
    gap = store.records(0, 100)[-1]
    assert (gap.type, gap.chain) == ("audit.gap", "next")
    said = data_of(gap)
    assert (said["reason"], f"{said['chain']}:{said['position']}") == ("broken_log", name)
    writer.turn([Entry(records=[scribe.note()])])
    writer.finish()
    clock.advance(1)
    start(store, "the one after")


def test_rewritten_records_with_valid_hashes_are_found_by_their_head(
    store: Store, log: Log, start: Callable[..., Writer], signing_key: SigningKey, clock: ManualClock, scribe: Any
) -> None:
    _put(store, *_rewritten(log, 6, 7, signing_key, clock, scribe))
    with pytest.raises(LogBroken) as refused:
        start(store)
    assert refused.value.details["name"] == "newer:4"


def test_heads_of_unknown_keys_are_ignored(
    store: Store, log: Log, start: Callable[..., Writer], clock: ManualClock
) -> None:
    rows, heads = log
    stranger = SigningKey(SigningKey.new_secret())
    clock.advance(1)
    _put(store, rows, [*heads, new_head("default", "elsewhere", 7, "0" * 64, clock.now_ms(), stranger)])
    start(store)


def test_a_start_checks_a_limited_number_of_records(
    store: Store, log: Log, signing_key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {signing_key.verify_key.key_id: signing_key.verify_key}
    rows, heads = _changed(log, 4, data=b"{}")
    _put(store, rows, heads)
    assert broken_tail(store, keys) is not None
    monkeypatch.setattr(tail, "TAIL_PAGE", 2)
    monkeypatch.setattr(tail, "TAIL_RECORDS", 6)
    assert broken_tail(store, keys) is None
    monkeypatch.setattr(tail, "TAIL_RECORDS", 8)
    assert broken_tail(store, keys) is not None
    monkeypatch.setattr(tail, "TAIL_BYTES", 20)
    assert broken_tail(store, keys) is None


def test_a_break_in_an_earlier_chain_does_not_stop_a_start(
    store: Store, log: Log, start: Callable[..., Writer]
) -> None:
    _put(store, *_changed(log, 2, data=b"{}"))
    start(store)

"""The signatures of the next start for a chain of a killed writer."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore

from bollard.host.limits import HEAD_RECORDS
from bollard.host.log import chain as ends
from bollard.host.log.chain import Chains, sign_ends
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.store.rows import HeadRow, RecordRow
from bollard.host.store.store import Store
from bollard.trust.keys import SigningKey

Open = Callable[..., Journal]
Left = tuple[list[RecordRow], list[HeadRow]]


@pytest.fixture
def left(signing_key: SigningKey, clock: ManualClock, scribe: Any) -> Left:
    """Five records, and a head at the second of them."""
    chains = Chains("killed", signing_key, clock, every_records=HEAD_RECORDS, every_s=60)
    rows = chains.chain([scribe.note(), scribe.note()], 1)
    heads = chains.due_heads()
    return rows + chains.chain([scribe.note() for _ in range(3)], 3), heads


def _put(store: Store, rows: list[RecordRow], heads: list[HeadRow]) -> None:
    with store.write() as transaction:
        transaction.next_record_ids(len(rows))
        transaction.add_records(rows)
        for head in heads:
            transaction.add_head(head)


def test_the_end_of_a_sound_chain_is_signed(memory_store: MemoryStore, left: Left, signing_key: SigningKey) -> None:
    rows, heads = left
    _put(memory_store, rows, heads)
    (signed,) = sign_ends(memory_store, signing_key, 7)
    assert (signed.position, signed.hash, signed.created_ms) == (5, rows[-1].hash, 7)
    assert memory_store.heads("default") == [*heads, signed]
    assert sign_ends(memory_store, signing_key, 8) == []


SPOILT: dict[str, Callable[[Left], Left]] = {
    "a record was edited": lambda left: ([*left[0][:3], replace(left[0][3], type="else"), left[0][4]], left[1]),
    "its data was edited": lambda left: ([*left[0][:4], replace(left[0][4], data=b"else")], left[1]),
    "a record is missing": lambda left: (left[0][:2] + left[0][3:], left[1]),
    "its head was made up": lambda left: (left[0], [replace(left[1][0], signature=bytes(64))]),
    "its head names another hash": lambda left: (left[0], [replace(left[1][0], hash="0" * 64)]),
    "another key signed it": lambda left: (left[0], [replace(left[1][0], key_id="another")]),
    "nobody signed it": lambda left: (left[0], []),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=list(SPOILT))
def test_the_end_of_an_unsound_chain_is_not_signed(
    memory_store: MemoryStore, left: Left, signing_key: SigningKey, spoil: Callable[[Left], Left]
) -> None:
    rows, heads = spoil(left)
    _put(memory_store, rows, heads)
    assert sign_ends(memory_store, signing_key, 7) == []
    assert memory_store.heads("default") == heads


def test_a_start_follows_a_limited_number_of_records(
    memory_store: MemoryStore, left: Left, signing_key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(memory_store, *left)
    monkeypatch.setattr(ends, "ENDS_RECORDS", 2)
    assert [[head.position for head in sign_ends(memory_store, signing_key, at)] for at in range(3)] == [[4], [5], []]


@pytest.mark.parametrize("call", ["read.lagging_heads", "read.chain", "write."])
async def test_a_journal_opens_even_if_ends_cannot_be_signed(
    gate: Any, left: Left, open_journal: Open, scribe: Any, call: str
) -> None:
    rows, heads = left
    _put(gate.store, rows, heads)
    gate.plan.only, gate.plan.fail_at, gate.plan.error = call, 1, RuntimeError
    gate.plan.calls.clear()
    journal = open_journal(gate.store)
    await journal.commit(Entry(records=[scribe.note()]))
    await journal.close()
    assert gate.plan.calls
    assert [(head.chain, head.position) for head in gate.store.heads("default")] == [("i1", 1), ("killed", 2)]

"""Data dropped by age: removed with everything derived from it, accounted for in its own commit, and only when no run
needs it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.doubles.failing_store import FailurePlan, failing
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.new_events import new_event
from tests.tables import for_each

from bollard.host.errors import Conflict, SettingsError
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.projection import Projector
from bollard.host.log.rebuild import rebuild
from bollard.host.log.records import data_of
from bollard.host.log.retention import ERASURES, KINDS, STANDING, Retention, purge, retention_of
from bollard.host.store.queries import TranscriptQuery
from bollard.host.store.store import Store

Open = Callable[..., Journal]
ROOM = TranscriptQuery(workspace="default", bot=None, conversation="room", thread=None, limit=100)
TALK = Retention(days=(("event.received", 1.0), ("message.completed", 1.0)), deltas_days=1.0)
MESSAGE = {"message": {"role": "assistant", "content": "a secret answer"}}


async def live(journal: Journal, scribe: Any, run_id: str, *, ends: bool = True) -> None:
    """A run that answers, and ends or continues."""
    facts = scribe.facts(run_id)
    await journal.commit(scribe.first(facts, text="a secret question"))
    records = [scribe.record(facts, "message.completed", MESSAGE, 5)]
    if ends:
        records.append(scribe.record(facts, "run.ended", {"status": "completed"}, 6))
    deltas = [scribe.deltas(facts, 3, ["a secret ", "answer"])]
    await journal.commit(Entry(records=records, deltas=deltas, fence=(run_id, 1)))


def accounts(store: Store) -> list[Any]:
    return [data_of(row)["dropped"] for row in store.records(0, 10_000) if row.type == "retention.purged"]


async def test_old_data_is_dropped_with_everything_derived_from_it(
    store: Store, open_journal: Open, scribe: Any, clock: ManualClock, verified: Any
) -> None:
    journal = open_journal(store)
    await live(journal, scribe, "run_1")
    clock.advance(2 * 24 * 3600)
    dropped = await purge(journal, clock, TALK, "default")
    assert dropped == {"event.received": 1, "message.completed": 1, "message.delta": 1}
    assert await purge(journal, clock, TALK, "default") == {}
    await journal.close()

    assert accounts(store) == [{"event.received": 1}, {"message.completed": 1}, {"message.delta": 1}]
    assert store.event("default", "evt_run_1") is None
    assert store.transcript(ROOM) == store.search(ROOM, [("secret",)]) == store.deltas_of_run("run_1", 0) == []
    before = store.dump_projections()
    assert "secret" not in repr([*before.values()])
    assert [row.type for row in store.records_of_run("run_1", 0, 10)] == [
        "run.created",
        "grant.issued",
        "message.completed",
        "run.ended",
    ]
    verified(store, "i1", len(store.records(0, 100)))
    rebuild(store)
    assert store.dump_projections() == before


async def test_an_active_run_keeps_all_its_data(
    store: Store, open_journal: Open, scribe: Any, clock: ManualClock
) -> None:
    journal = open_journal(store)
    await live(journal, scribe, "run_1", ends=False)
    clock.advance(2 * 24 * 3600)
    assert await purge(journal, clock, TALK, "default") == {}
    end = scribe.record(scribe.facts("run_1"), "run.ended", {"status": "completed"}, 6)
    await journal.commit(Entry(records=[end], fence=("run_1", 1)))
    assert await purge(journal, clock, TALK, "default") == {
        "event.received": 1,
        "message.completed": 1,
        "message.delta": 1,
    }


async def test_a_message_that_waits_for_a_run_is_retained(
    store: Store, open_journal: Open, scribe: Any, clock: ManualClock
) -> None:
    journal = open_journal(store)
    heard = new_event(source="web", source_id="1", event_type="message.received", text="hello", conversation="room")
    data = msgspec.json.decode(heard.record("evt_1", None, waits_for="parrot"))
    await journal.commit(Entry(records=[scribe.note("event.received", **data)]))
    assert [row.dispatch for row in store.pending_events(0, 10)] == ["pending"]
    clock.advance(2 * 24 * 3600)
    assert await purge(journal, clock, TALK, "default") == {}
    assert len(store.pending_events(0, 10)) == 1


async def test_a_failed_purge_drops_no_data_without_a_record(
    memory_store: MemoryStore, open_journal: Open, scribe: Any, clock: ManualClock
) -> None:
    journal = open_journal(memory_store)
    await live(journal, scribe, "run_1")
    await journal.close()
    clock.advance(2 * 24 * 3600)

    def on_call(call: str) -> None:
        if call == "write.add_records":  # after the chore, before its record
            raise Conflict("refused on purpose", reason="test", hint="this is a test")

    broken = open_journal(failing(memory_store, FailurePlan(on_call=on_call)), "i2")
    with pytest.raises(Conflict):
        await purge(broken, clock, TALK, "default")
    assert all(row.data is not None for row in memory_store.records(0, 100))
    assert accounts(memory_store) == []


def test_record_types_of_projections_are_refused_for_retention() -> None:
    """The record types behind projections, without messages, and the record types of erasures."""
    handlers = Projector()._handlers  # pyright: ignore[reportPrivateUsage]
    read_from_the_log = {"grant.revoked"}
    said = {"event.received", "message.completed", "delivery.queued"}
    said |= {"question.asked", "question.answered", "question.expired"}
    assert (handlers.keys() - said) | read_from_the_log | ERASURES == STANDING
    for kind in STANDING:
        with pytest.raises(SettingsError) as refusal:
            retention_of(((kind, 1.0),))
        assert refusal.value.details["field"] == "retention"
        assert refusal.value.hint
    assert retention_of((("message.delta", 2.0), ("api.called", 1.0))) == Retention(
        days=(("api.called", 1.0),), deltas_days=2.0
    )


@for_each(
    ("kind", "near"),
    [
        ("mesage.completed", "message.completed"),
        ("MESSAGE.completed", "message.completed"),
        ("message.deltas", "message.delta"),
        ("", ""),
        ("completely else", ""),
    ],
)
def test_an_unknown_record_type_is_refused_with_a_suggestion(kind: str, near: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        retention_of((("api.called", 1.0), (kind, 30.0)))
    assert repr(kind) in refusal.value.message
    assert (near or "message.completed") in refusal.value.hint
    assert refusal.value.details["field"] == "retention"


def test_every_standing_or_droppable_type_is_a_record_type() -> None:
    assert STANDING < KINDS
    assert "message.delta" in KINDS

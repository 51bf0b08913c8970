"""The selection of a person's records, and erasure from archived segments whose data the store has dropped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from tests.doubles.manual_clock import ManualClock

from bollard.host.audit.erasure import Eraser
from bollard.host.audit.segments import Archiver, segment_rows
from bollard.host.audit.selection import Selection, name_digest
from bollard.host.backup.log_check import check_log, read_witnesses
from bollard.host.backup.sqlite_tables import SqliteSnapshot
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord
from bollard.host.log.retention import Retention, purge
from bollard.host.store.rows import RecordRow
from bollard.host.store.store import Store
from bollard.trust.keys import SigningKey

ANN = name_digest("default", "room:ann")


def row(number: int, type_: str, of_run: str | None = None, **data: Any) -> RecordRow:
    return RecordRow(
        id=number,
        workspace="default",
        chain="i1",
        position=number,
        run_id=of_run,
        seq=None,
        epoch=None,
        source_seq=None,
        type=type_,
        observed=True,
        created_ms=0,
        data=msgspec.json.encode(data),
        data_sha256="",
        hash=str(number),
    )


def event(number: int, event_id: str, actor: str) -> RecordRow:
    return row(number, "event.received", event_id=event_id, actor_type="room", actor_id=actor)


def test_a_person_has_events_runs_their_calls_and_what_is_recorded_outside_of_them() -> None:
    rows = [
        event(1, "evt_a", "ann"),
        row(2, "run.created", "run_a", run_id="run_a", event_id="evt_a"),
        event(3, "evt_b", "bob"),
        row(4, "run.created", "run_b", run_id="run_b", event_id="evt_b"),
        row(5, "run.created", "run_c", run_id="run_c", event_id="evt_c", parent_run_id="run_a"),
        row(6, "message.completed", "run_c", message={}),
        row(7, "message.completed", "run_b", message={}),
        row(8, "steering.queued", "run_b", event_id="evt_a"),
        row(9, "delivery.sent", delivery_id="run_a.4", run_id="run_a"),
        row(10, "delivery.sent", delivery_id="run_b.4", run_id="run_b"),
        row(11, "delivery.queued", delivery_id="default/evt_a.reply", event_id="evt_a"),
        row(12, "state.deleted", written_by="run_a", owner={}),
        row(13, "login.succeeded", user_id="ann"),
        row(14, "policy.changed", kind="actor", body={"actor": "room:ann", "user_id": "x"}),
        row(15, "policy.changed", kind="actor", id="x", action="deleted"),
        row(16, "policy.changed", kind="agent", body={"agent_id": "ann"}),
    ]
    selection = Selection.of_person("default", [ANN])
    for each in (*rows, *rows):
        selection.learn(each)
    assert [each.id for each in rows if selection.has(each)] == [1, 2, 5, 6, 9, 11, 12, 14]
    other = Selection.of_person("other", [ANN])
    for each in rows:
        other.learn(each)
    assert not [each for each in rows if other.has(each)]


async def test_archived_segments_lose_the_data_that_the_store_has_dropped_before(
    sqlite_store: Store,
    sqlite_path: Path,
    open_journal: Callable[..., Journal],
    clock: ManualClock,
    signing_key: SigningKey,
) -> None:
    journal, archive = open_journal(sqlite_store), sqlite_path.parent / "archive"
    for number, actor in enumerate(("ann", "bob"), start=1):
        fields = {"event_id": f"evt_{actor}", "source": "room", "source_id": str(number), "event_type": "note"}
        data = msgspec.json.encode(
            {**fields, "run_id": None, "dispatch": "dropped", "actor_type": "room", "actor_id": actor}
        )
        record = NewRecord(workspace="default", type="event.received", data=data, created_ms=clock.now_ms())
        await journal.commit(Entry(records=[record]))
    await journal.close()
    clock.advance(10 * 24 * 3600)
    journal = open_journal(sqlite_store, "i2")
    await Archiver(store=sqlite_store, journal=journal, clock=clock, folder=archive, days=1.0).run()
    assert await purge(journal, clock, Retention(days=(("event.received", 5.0),)), "default")
    eraser = Eraser(sqlite_store, journal, clock, archive)
    erased = await eraser.erase(Selection.of_person("default", [ANN]), "person.erased", {}, by="admin-token")
    assert (erased.records, erased.segments) == ({}, 1)
    kept = [each.data for each in segment_rows(archive) if each.type == "event.received"]
    assert [data is None for data in kept] == [True, False]
    await journal.close()
    snapshot = SqliteSnapshot(sqlite_path)
    try:
        keys = read_witnesses({signing_key.verify_key.key_id: signing_key.verify_key})
        assert check_log(snapshot, keys, archive=archive).report.problems == ()
    finally:
        snapshot.close()

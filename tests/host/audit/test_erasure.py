"""The selection of a person's records, and erasure from archived segments whose data the store has dropped."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from tests.doubles.manual_clock import ManualClock

from bollard.host.audit.erasure import Eraser
from bollard.host.audit.segments import Archiver, segment_rows
from bollard.host.audit.selection import Selection, name_digest
from bollard.host.audit.survey import Survey
from bollard.host.backup.log_check import check_log, read_witnesses
from bollard.host.backup.sqlite_tables import SqliteSnapshot
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, data_of
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
        row(17, "policy.changed", kind="schedule", id="pills", body={"proposed_by": "run_a"}),
        row(18, "policy.changed", kind="schedule", id="report", body={"proposed_by": "run_b"}),
        row(19, "event.received", event_id="evt_p", extra={"schedule": {"proposed_by": "run_a"}}),
        row(20, "event.received", event_id="evt_r", extra={"schedule": {"proposed_by": "run_b"}}),
        row(21, "run.created", "run_p", run_id="run_p", event_id="evt_p"),
        row(22, "policy.changed", kind="schedule", id="report", body={"proposed_by": None}),
    ]
    selection = Selection.of_person("default", [ANN])
    for each in (*rows, *rows):
        selection.learn(each)
    assert [each.id for each in rows if selection.has(each)] == [1, 2, 5, 6, 9, 11, 12, 14, 17, 19, 21]
    other = Selection.of_person("other", [ANN])
    for each in rows:
        other.learn(each)
    assert not [each for each in rows if other.has(each)]


def test_one_reading_in_the_order_of_the_log_finds_everything() -> None:
    rows = [
        row(1, "artifact.created", artifact_id="f1", by="channel:room"),
        row(2, "artifact.created", artifact_id="f2", by="channel:room"),
        event(3, "evt_a", "ann"),
        row(4, "artifact.created", artifact_id="f1", by="channel:room", event_id="evt_a"),
        row(5, "run.created", "run_a", run_id="run_a", event_id="evt_a"),
        event(6, "evt_b", "bob"),
        row(7, "artifact.created", artifact_id="f2", by="channel:room", event_id="evt_b"),
        row(8, "run.created", "run_c", run_id="run_c", event_id="evt_c", parent_run_id="run_a"),
        row(9, "artifact.created", "run_c", artifact_id="a1"),
        row(10, "knowledge.changed", kb_id="k", document_id="d1", action="saved", by="room:ann"),
        row(11, "knowledge.changed", kb_id="k", document_id="d2", action="saved", by="room:ann"),
        row(12, "knowledge.changed", kb_id="k", document_id="d2", action="saved", by="room:bob"),
        row(13, "knowledge.changed", kb_id="k", document_id="d3", action="saved", by="room:ann"),
        row(14, "knowledge.changed", kb_id="k", document_id="d3", action="deleted", by="admin"),
    ]
    survey = Survey(Selection.of_person("default", [ANN]), lambda _: None)
    for each in rows:
        survey.add(each)
    assert [*survey.artifacts] == ["f1", "a1"]
    assert [*survey.documents] == [("k", "d1")]
    assert survey.through == 14
    batches = [*survey.batches(4)]
    assert [each.ids for each in batches] == [[13, 11, 10, 9], [8, 5, 4, 3], [1]], "newest first"
    assert (batches[1].runs, batches[1].types["run.created"]) == (["run_a", "run_c"], 2)
    assert sum(survey.counts.values()) == 9


class CountingStore:
    """A store that counts the records that are read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def records(self, after: int, limit: int) -> Any:
        rows = self._store.records(after, limit)
        self.read += [each.id for each in rows]
        return rows


async def test_an_erasure_reads_the_log_once(
    sqlite_store: Store, open_journal: Callable[..., Journal], clock: ManualClock
) -> None:
    journal = open_journal(sqlite_store)
    for number in range(20):
        fields = {"event_id": f"evt_{number}", "source": "room", "source_id": str(number), "event_type": "note"}
        data = msgspec.json.encode(
            {**fields, "run_id": None, "dispatch": "dropped", "actor_type": "room", "actor_id": "ann"}
        )
        record = NewRecord(workspace="default", type="event.received", data=data, created_ms=clock.now_ms())
        await journal.commit(Entry(records=[record]))
    store: Any = CountingStore(sqlite_store)
    eraser = Eraser(store, journal, clock)
    erased = await eraser.erase(
        await eraser.survey(Selection.of_person("default", [ANN])), "person.erased", {}, by="admin-token"
    )
    assert erased.records == {"event.received": 20}
    assert len(store.read) == len(set(store.read)) >= 20
    await journal.close()


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
    survey = await eraser.survey(Selection.of_person("default", [ANN]))
    erased = await eraser.erase(survey, "person.erased", {}, by="admin-token")
    assert (erased.records, erased.segments) == ({}, 1)
    kept = [each.data for each in segment_rows(archive) if each.type == "event.received"]
    assert [data is None for data in kept] == [True, False]
    records = [data_of(each) for each in sqlite_store.records(0, 100) if each.type == "log.archived"]
    (path,) = archive.rglob("*.gz")
    assert [each["file"] for each in records] == [path.relative_to(archive).as_posix()] * 2
    digests = [each["sha256"] for each in records]
    assert digests[1] == sha256(path.read_bytes()).hexdigest() != digests[0], "the newest record has the new digest"
    await journal.close()
    snapshot = SqliteSnapshot(sqlite_path)
    try:
        keys = read_witnesses({signing_key.verify_key.key_id: signing_key.verify_key})
        assert check_log(snapshot, keys, archive=archive).report.problems == ()
    finally:
        snapshot.close()

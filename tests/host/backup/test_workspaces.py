"""One workspace moves from one host to another: verified, complete, and without secrets."""

import json
import sqlite3
import zipfile
from contextlib import closing

import pytest
from tests.host.backup.conftest import believing, rewritten
from tests.simulation.ledger import all_records, run_problems

from bollard.host.archive.reader import ArchiveReader
from bollard.host.backup.backup import BackupSource
from bollard.host.backup.restore import restore
from bollard.host.backup.workspace_export import export_workspace
from bollard.host.backup.workspace_import import import_workspace
from bollard.host.clock import SystemClock
from bollard.host.errors import BadArchive, Conflict, LogBroken, NotFound
from bollard.host.log.chain import Chains
from bollard.host.log.entries import Entry
from bollard.host.log.rebuild import rebuild
from bollard.host.log.records import NewRecord, data_of, encode_data
from bollard.host.log.writer import Writer
from bollard.host.store.blobs import BlobStore
from bollard.host.store.queries import RunQuery
from bollard.host.store.rows import KeptRow, PutKept
from bollard.host.store.selection import choose_store
from bollard.trust.keys import load_or_make_signing_key

SECRET = "5e" * 32


def opened(source):
    store = choose_store(source.database, source.data, SystemClock())
    store.open()
    return closing(store)


def written(source, clock, *records, keeps=()):
    """Some records after the existing ones, by a new incarnation."""
    with opened(source) as store:
        key = load_or_make_signing_key(source.data / "keys/heads.ed25519")
        writer = Writer(store, BlobStore(source.data / "blobs"), clock, incarnation="later", key=key)
        new = [NewRecord(workspace=w, type=t, data=encode_data(d), created_ms=1) for w, t, d in records]
        writer.turn([Entry(records=new, keeps=[PutKept(row) for row in keeps])])
        writer.finish()


def echo_fields(runner_id):
    """The configuration fields of the runner of the saved agent: none is a secret."""
    return frozenset({"greeting"}) if runner_id.endswith("/echo/default") else frozenset()


def exported(source, path, clock, workspace="default"):
    return export_workspace(source, workspace, path, version="0.1.0", clock=clock, open_fields=echo_fields)


def imported(path, target, clock):
    return import_workspace(path, target, trust=believing(path), clock=clock)


@pytest.fixture
def elsewhere(target, clock):
    """Another host's store, with its own workspace."""
    with opened(target):
        pass
    written(target, clock, ("other", "note", {"n": 1}))
    return target


def test_a_workspace_is_imported_with_its_runs_messages_contents_and_chain(past, elsewhere, clock, tmp_path):
    report = exported(past.source, tmp_path / "w.zip", clock)
    assert (report.missing, report.withheld) == ((), 0)
    came = imported(tmp_path / "w.zip", elsewhere, clock)
    assert (came.workspace, came.verified) == ("default", report.verified)
    with closing(past.open()) as store:
        runs = {run.run_id: run for run in store.runs(RunQuery(workspace="default", limit=100))}
        agents = store.policies("agent", "default")
        artifacts = store.dump_projections()["artifacts"]
        hashes = [record.hash for record in all_records(store)]
        newest = store.last_record()
    with opened(elsewhere) as store:
        # Versions of state are ids: no remembered version of the other store is that of a later value here.
        assert all(record.id > newest for record in all_records(store) if record.workspace == "default")
        found = {run.run_id: run for run in store.runs(RunQuery(workspace="default", limit=100))}
        assert found.keys() == runs.keys()
        for run_id, run in runs.items():
            assert (
                (found[run_id].status == "failed") if run.finished_ms is None else (found[run_id].status == run.status)
            )
        assert store.policies("agent", "default") == agents != []
        assert store.dump_projections()["artifacts"] == artifacts != []
        assert [record.hash for record in all_records(store) if record.workspace == "default"][: len(hashes)] == hashes
        assert run_problems(store) == []
        dump = store.dump_projections()
        rebuild(store)
        assert store.dump_projections() == dump
        last = [record for record in all_records(store) if record.workspace == "default"][-1]
        assert (last.type, data_of(last)["runs"]) == ("workspace.imported", 1)
        assert [record.type for record in all_records(store) if record.workspace == "other"] == ["note"]
    again = exported(elsewhere, tmp_path / "again.zip", clock)
    assert again.verified.unknown_heads == 0  # also what the other host's key signed


def test_the_content_of_a_deleted_or_expired_artifact_is_not_exported(make_past, clock, tmp_path):
    past = make_past("sqlite")
    blobs = BlobStore(past.source.data / "blobs")
    kept, brief, deleted, shared = (blobs.put(each) for each in (b"kept", b"brief", b"deleted", b"shared"))
    now_ms = clock.now_ms()

    def made(name, sha256):
        said = {"artifact_id": name, "artifact_type": "file", "name": name, "mime_type": "text/plain", "by": "ann"}
        return ("default", "artifact.created", {**said, "size_bytes": 1, "sha256": sha256})

    def received(name, sha256, expires_ms):
        raw = {"artifact_id": name, "size_bytes": 1, "sha256": sha256, "expires_ms": expires_ms}
        event = {"event_id": name, "source": "s", "source_id": name, "event_type": "webhook.received", "raw": raw}
        return ("default", "event.received", event)

    written(
        past.source,
        clock,
        *(received("kept", kept, now_ms + 1), received("brief", brief, now_ms)),
        *(made("deleted", deleted), made("twin", shared), made("other twin", shared)),
        *(("default", "artifact.deleted", {"artifact_id": name, "by": "ann"}) for name in ("deleted", "twin")),
    )
    report = exported(past.source, tmp_path / "w.zip", clock)
    with ArchiveReader(tmp_path / "w.zip", "workspace") as reader:
        assert {kept, shared} <= set(reader.blobs)
        assert not {brief, deleted} & set(reader.blobs)
    assert report.missing == ()


def test_an_existing_workspace_is_not_merged_into(past, clock, tmp_path):
    exported(past.source, tmp_path / "w.zip", clock)
    with closing(past.open()) as store:
        before = store.dump_projections()
    with pytest.raises(Conflict, match="not empty") as caught:
        imported(tmp_path / "w.zip", past.source, clock)
    assert "nothing is merged" in caught.value.hint
    with closing(past.open()) as store:
        assert store.dump_projections() == before


def test_only_the_named_workspace_is_exported_without_keys_passwords_and_sessions(make_past, clock, tmp_path):
    past = make_past("sqlite")
    key = {"kind": "key", "id": "k1", "action": "saved", "revision": 1, "body": {"sha256": SECRET}, "by": "admin-token"}
    user = {"kind": "user", "id": "ann", "action": "saved", "revision": 1, "body": {"role": "admin"}, "by": "x"}
    foreign = ("other", "note", {"text": "of somebody else"})
    kept = KeptRow(kind="password", workspace="default", id="ann", body=b"argon2", expires_ms=None, updated_ms=1)
    written(
        past.source,
        clock,
        ("default", "policy.changed", key),
        ("default", "policy.changed", user),
        foreign,
        keeps=[kept],
    )
    report = exported(past.source, tmp_path / "w.zip", clock)
    assert report.withheld == 1
    with zipfile.ZipFile(tmp_path / "w.zip") as archive:
        names = archive.namelist()
        text = b"".join(archive.read(name) for name in names)
        lines = [json.loads(line) for line in archive.read("tables/records.jsonl").splitlines()]
    assert {name.partition("/")[0] for name in names} == {"tables", "blobs", "manifest.json", "signature.json"}
    assert {line[1] for line in lines} == {"default"}
    for secret in (SECRET.encode(), b"argon2", (past.source.data / "keys/heads.ed25519").read_bytes()):
        assert secret not in text
    target = BackupSource(database="", data=tmp_path / "there")
    with opened(target):
        pass
    imported(tmp_path / "w.zip", target, clock)
    with opened(target) as store:
        assert [row.id for row in store.policies("user", "default")] == ["ann"]
        assert store.policies("key", "default") == []


def test_an_agent_is_exported_without_possible_secrets(make_past, clock, tmp_path):
    past = make_past("sqlite")
    with closing(past.open()) as store:
        (saved,) = store.policies("agent", "default")
    body = json.loads(saved.body)
    config = {"api_key": SECRET, "steps": 3, "prompt": "be kind"}
    change = {"kind": "agent", "id": saved.id, "action": "saved", "revision": 2, "by": "x"}
    written(past.source, clock, ("default", "policy.changed", {**change, "body": {**body, "config": config}}))

    def known(runner_id):
        return frozenset({"steps", "prompt", "greeting"}) if runner_id == body["runner_id"] else frozenset()

    for name, fields, wanted in (("asked", known, {"steps": 3, "prompt": "be kind"}), ("alone", None, {"steps": 3})):
        path = tmp_path / f"{name}.zip"
        options = {} if fields is None else {"open_fields": fields}
        report = export_workspace(past.source, "default", path, version="0", clock=clock, **options)
        assert (report.agents, report.withheld) == ((saved.id,), 1 if fields else 2)
        with zipfile.ZipFile(path) as archive:
            assert not any(SECRET.encode() in archive.read(entry) for entry in archive.namelist())
        target = BackupSource(database="", data=tmp_path / name)
        assert imported(path, target, clock).agents == (saved.id,)
        with opened(target) as store:
            (came,) = store.policies("agent", "default")
            assert (json.loads(came.body)["config"], came.revision) == (wanted, 2)


def test_a_workspace_without_a_record_cannot_be_exported(make_past, clock, tmp_path):
    with pytest.raises(NotFound, match="there is no workspace 'nobody'"):
        exported(make_past("sqlite").source, tmp_path / "w.zip", clock, workspace="nobody")
    assert not (tmp_path / "w.zip").exists()


def test_a_message_of_the_host_itself_is_imported_with_its_workspace(make_past, clock, tmp_path):
    source, target = BackupSource(database="", data=tmp_path / "one"), make_past("sqlite").source
    data = {"delivery_id": "mine/evt_1.reply", "event_id": "evt_1", "channel": "room", "target": "c", "text": "hello"}
    with opened(source) as store:
        key = load_or_make_signing_key(source.data / "keys/heads.ed25519")
        chains = Chains("one", key, clock, every_records=1, every_s=1)
        new = NewRecord(workspace="mine", type="delivery.queued", data=json.dumps(data).encode(), created_ms=1)
        with store.write() as transaction:
            transaction.add_records(chains.chain([new], 1))
    exported(source, tmp_path / "w.zip", clock, workspace="mine")
    imported(tmp_path / "w.zip", target, clock)
    with opened(target) as store:
        (row,) = store.outbox("mine", None, None, 10)
        assert (row.delivery_id, row.status) == ("mine/evt_1.reply", "unknown")  # the original may have sent it


@pytest.mark.parametrize(
    "record",
    [
        {"type": "run.created", "run_id": "r9", "data": {"run_id": "r9", "workspace": "other"}},
        {"type": "run.created", "run_id": "r9", "data": {"run_id": "r8", "workspace": "default"}},
        {"type": "run.ended", "run_id": "victim", "data": {"status": "failed"}},
        {"type": "delivery.sent", "run_id": None, "data": {"delivery_id": "victim.3", "messages": []}},
        {"type": "delivery.sent", "run_id": None, "data": {"delivery_id": "other/evt_1.reply", "messages": []}},
    ],
    ids=[
        "another workspace's run",
        "another run",
        "a run that is here",
        "a delivery that is here",
        "a message of the host to another workspace",
    ],
)
def test_a_forged_archive_cannot_reach_another_workspace(make_past, clock, tmp_path, record):
    source, target = BackupSource(database="", data=tmp_path / "evil"), make_past("sqlite").source
    for each in (source, target):
        with opened(each):
            pass
    with opened(target) as store:
        victim = store.runs(RunQuery(workspace="default", limit=1))[0].run_id
        before = store.dump_projections()
        facts = json.loads(store.run(victim).facts)
    whole = {**facts, **record["data"]} if record["type"] == "run.created" else record["data"]
    text = json.dumps(whole).replace("victim", victim)
    with opened(source) as store:
        key = load_or_make_signing_key(source.data / "keys/heads.ed25519")
        chains = Chains("evil", key, clock, every_records=1, every_s=1)
        run_id = victim if record["run_id"] == "victim" else record["run_id"]
        new = NewRecord(
            workspace="mine",
            type=record["type"],
            data=text.replace("default", "mine").encode(),
            created_ms=1,
            run_id=run_id,
            seq=None if run_id is None else 1000,
            epoch=1,
        )
        with store.write() as transaction:
            transaction.add_records(chains.chain([new], 1))
    exported(source, tmp_path / "w.zip", clock, workspace="mine")
    with pytest.raises((BadArchive, Conflict)):
        imported(tmp_path / "w.zip", target, clock)
    with opened(target) as store:
        assert store.dump_projections() == before


def test_deltas_of_a_run_outside_the_archive_are_refused(make_past, with_lines, clock, tmp_path):
    past = make_past("sqlite")
    exported(past.source, tmp_path / "w.zip", clock)

    def foreign(lines):
        return [json.dumps(["run_of_another", *json.loads(lines[0])[1:]]).encode(), *lines[1:]]

    forged = with_lines(tmp_path / "w.zip", tmp_path / "forged.zip", "tables/deltas.jsonl", foreign)
    target = BackupSource(database="", data=tmp_path / "there")
    with pytest.raises(BadArchive, match="a row of deltas belongs to another workspace"):
        imported(forged, target, clock)
    with opened(target) as store:
        assert list(all_records(store)) == []


def test_an_import_behind_a_changed_end_of_the_log_is_refused(make_past, clock, tmp_path):
    exported(make_past("sqlite").source, tmp_path / "w.zip", clock)
    target = BackupSource(database="", data=tmp_path / "there")
    imported(tmp_path / "w.zip", target, clock)
    with sqlite3.connect(target.data / "bollard.db") as database:
        database.execute("UPDATE records SET data = X'7b7d' WHERE id = (SELECT max(id) FROM records)")
    database.close()
    with pytest.raises(LogBroken):
        imported(tmp_path / "w.zip", target, clock)


def test_an_archive_does_not_use_up_the_ids_of_records(make_past, with_lines, clock, tmp_path):
    exported(make_past("sqlite").source, tmp_path / "w.zip", clock)

    def last_is_far(lines):
        return [*lines[:-1], json.dumps([1 << 62, *json.loads(lines[-1])[1:]]).encode()]

    forged = with_lines(tmp_path / "w.zip", tmp_path / "forged.zip", "tables/records.jsonl", last_is_far)
    target = BackupSource(database="", data=tmp_path / "there")
    with pytest.raises(BadArchive, match="impossible id"):
        imported(forged, target, clock)
    with opened(target) as store:
        assert list(all_records(store)) == []


def test_an_export_is_not_restored_and_a_changed_one_is_not_imported(make_past, clock, tmp_path):
    past = make_past("sqlite")
    path = tmp_path / "w.zip"
    exported(past.source, path, clock)
    with pytest.raises(BadArchive, match="archive of a workspace"):
        restore(path, data=tmp_path / "new", database="", trust=believing(path), clock=clock)
    target = BackupSource(database="", data=tmp_path / "there")
    with opened(target):
        pass

    def renamed(members):
        text = members["manifest.json"].replace(b'"workspace": "default"', b'"workspace": "renamed"')
        return {**members, "manifest.json": text}

    other = rewritten(path, tmp_path / "other.zip", renamed)
    with pytest.raises(BadArchive, match="another workspace"):
        imported(other, target, clock)
    with opened(target) as store:
        assert list(all_records(store)) == []
    with ArchiveReader(path, "workspace") as reader:
        assert reader.manifest.workspace == "default"


def test_files_of_a_workspace_are_exported_and_deleted_files_are_not(past, elsewhere, clock, tmp_path):
    blobs = BlobStore(past.source.data / "blobs")
    kept, gone = (
        {
            "artifact_id": f"file_{name}",
            "artifact_type": "file",
            "mime_type": "text/plain",
            "name": f"{name}.txt",
            "size_bytes": len(name),
            "sha256": blobs.put(name.encode()),
            "by": "ann",
        }
        for name in ("kept", "gone")
    )
    deleted = {"artifact_id": "file_gone", "by": "ann"}
    made = [("default", "artifact.created", file) for file in (kept, gone)]
    written(past.source, clock, *made, ("default", "artifact.deleted", deleted))
    exported(past.source, tmp_path / "w.zip", clock)
    imported(tmp_path / "w.zip", elsewhere, clock)
    with opened(elsewhere) as store:
        (file,) = store.uploads("default", "file_", 10)
    assert (file.artifact_id, file.name, file.sha256) == ("file_kept", "kept.txt", kept["sha256"])
    there = BlobStore(elsewhere.data / "blobs")
    assert there.read(kept["sha256"]) == b"kept"
    with pytest.raises(NotFound):
        there.read(gone["sha256"])


def asked_in_a_channel(run_id):
    """The records of a question of a run that its channel shows."""
    route = {"id": "qst_1.mDk2", "channel": "room", "target": "table", "event_id": "evt_1"}
    fields = {"question_id": "qst_1", "run_id": run_id, "interaction": route}
    return (
        ("question.asked", {**fields, "question": "Which one?"}),
        ("delivery.sent", {"delivery_id": "qst_1.mDk2.opened", "run_id": run_id, "messages": ["m1"]}),
        ("question.answered", {**fields, "answer": "left"}),
    )


def test_the_interactions_of_a_workspace_leave_with_it(make_past, elsewhere, clock, tmp_path):
    past = make_past("sqlite")
    with opened(past.source) as store:
        run_id = store.runs(RunQuery(workspace="default", limit=1))[0].run_id
    written(past.source, clock, *(("default", *record) for record in asked_in_a_channel(run_id)))
    exported(past.source, tmp_path / "w.zip", clock)
    imported(tmp_path / "w.zip", elsewhere, clock)
    with opened(elsewhere) as store:
        opening, closing_one = (store.delivery("default", f"qst_1.mDk2.{name}") for name in ("opened", "closed"))
    assert (opening.status, opening.messages, closing_one.status) == ("sent", b'["m1"]', "unknown")
    exported(elsewhere, tmp_path / "again.zip", clock)
    imported(tmp_path / "again.zip", BackupSource(database="", data=tmp_path / "third"), clock)


def test_an_archive_that_names_the_interaction_of_another_workspace_is_refused(make_past, elsewhere, clock, tmp_path):
    past = make_past("sqlite")
    with opened(past.source) as store:
        run_id = store.runs(RunQuery(workspace="default", limit=1))[0].run_id
    written(elsewhere, clock, *(("other", *record) for record in asked_in_a_channel("run_other")))
    for number, record in enumerate(asked_in_a_channel(run_id)):
        written(past.source, clock, ("default", *record))
        exported(past.source, tmp_path / f"{number}.zip", clock)
        with pytest.raises(BadArchive, match="another workspace"):
            imported(tmp_path / f"{number}.zip", elsewhere, clock)
    with opened(elsewhere) as store:
        assert store.delivery("other", "qst_1.mDk2.opened").status == "sent"


def test_the_schedules_of_a_workspace_and_their_last_ticks_leave_with_it(make_past, clock, tmp_path):
    past, target = make_past("sqlite"), BackupSource(database="", data=tmp_path / "elsewhere")
    body = {"schedule_id": "news", "cron": "0 9 * * *", "agent_id": "echo"}
    saved = {"kind": "schedule", "id": "news", "action": "saved", "revision": 1, "by": "ann", "body": body}
    tick = {"event_id": "evt_tick", "source": "bollard:schedules/news", "source_id": "2027-01-15T09:00:00.000Z"}
    written(
        past.source,
        clock,
        ("default", "policy.changed", saved),
        ("default", "event.received", {**tick, "event_type": "schedule.triggered", "run_id": None}),
    )
    exported(past.source, tmp_path / "w.zip", clock)
    with opened(target):
        pass
    imported(tmp_path / "w.zip", target, clock)
    with opened(target) as store:
        rebuild(store)
        assert [json.loads(row.body) for row in store.policies("schedule", "default")] == [body]
        last = store.last_of_source("default", "bollard:schedules/news")
        assert last is not None
        assert last.source_id == tick["source_id"]

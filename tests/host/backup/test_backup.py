"""Backups and restores: taken during writes, restored on either database, from any revision."""

import json
import os
import stat
import threading
from contextlib import closing

import pytest
from tests.host.backup.conftest import believing, rewritten
from tests.simulation.ledger import all_records, chain_problems, run_problems

from bollard.host.archive.reader import ArchiveReader
from bollard.host.backup.archive_verification import verify
from bollard.host.backup.backup import BackupSource, back_up
from bollard.host.backup.postgres_tables import PostgresLoader
from bollard.host.backup.restore import restore
from bollard.host.backup.settlement import epoch_after
from bollard.host.clock import SystemClock
from bollard.host.errors import BadArchive, Conflict, NotFound, SchemaTooNew, StorageUnavailable
from bollard.host.log.entries import Entry
from bollard.host.log.rebuild import rebuild
from bollard.host.log.records import NewRecord, data_of, encode_data
from bollard.host.log.writer import Writer
from bollard.host.store.blobs import BlobStore
from bollard.host.store.rows import KeptRow, PutKept
from bollard.host.store.selection import choose_store
from bollard.trust.keys import SigningKey, load_or_make_signing_key

NOT_COMPARED = {"runs", "events", "transcript", "outbox", "conversations"}
"""The changes of a settlement."""


def taken(past, path, clock, **options):
    return back_up(past.source, path, **{"with_keys": True, "version": "0.1.0", "clock": clock, **options})


def brought_back(path, target, clock):
    return restore(path, data=target.data, database=target.database, trust=believing(path), clock=clock)


def opened(source):
    store = choose_store(source.database, source.data, SystemClock())
    store.open()
    return closing(store)


@pytest.mark.smoke
def test_a_backup_is_restored_completely_on_either_database(past, target, clock, tmp_path):
    path = tmp_path / "all.zip"
    with closing(past.open()) as store:
        before, projected = list(all_records(store)), store.dump_projections()
    report = taken(past, path, clock)
    assert report.missing == ()
    assert report.verified.records == len(before)
    assert report.verified.unknown_heads == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    restored = brought_back(path, target, clock)
    assert restored.verified == report.verified
    with opened(target) as store:
        after = list(all_records(store))
        assert after[: len(before)] == before
        found = store.dump_projections()
        assert {name: found[name] for name in projected.keys() - NOT_COMPARED} == {
            name: projected[name] for name in projected.keys() - NOT_COMPARED
        }
        key = load_or_make_signing_key(target.data / "keys" / "heads.ed25519").verify_key
        assert chain_problems(store, key) == []
        assert run_problems(store) == []
        rebuild(store)
        assert store.dump_projections() == found
    blobs = BlobStore(target.data / "blobs")
    for artifact in found["artifacts"]:
        sha256 = next(value for value in artifact if isinstance(value, str) and len(value) == 64)
        assert blobs.size(sha256) > 0


def test_unfinished_runs_of_a_backup_end_under_an_unused_epoch_with_a_reason(past, target, clock, tmp_path):
    path = tmp_path / "all.zip"
    with closing(past.open()) as store:
        (open_run,) = store.unfinished_runs("", 10)
    taken(past, path, clock)
    restored = brought_back(path, target, clock)
    assert restored.settled.runs == 1
    with opened(target) as store:
        assert store.unfinished_runs("", 10) == []
        run = store.run(open_run.run_id)
        assert (run.status, run.reason) == ("failed", "host.lost")
        assert run.epoch == epoch_after(open_run.epoch, clock.now_ms()) > open_run.epoch + 1
        last = list(all_records(store))[-1]
        assert (last.type, data_of(last)["runs"]) == ("store.restored", 1)
        assert last.chain not in {record.chain for record in list(all_records(store))[:5]}
        assert [head for head in store.heads("default") if head.chain == last.chain]


def test_an_epoch_after_a_restore_is_beyond_every_owner_and_fits_a_cursor():
    now_ms = 1_800_000_000_000
    assert epoch_after(1, now_ms) > 1_000_000
    assert epoch_after(5_000_000, now_ms) == 5_000_001
    assert epoch_after(1, now_ms + 3_600_000) > epoch_after(1, now_ms)
    assert len(f"{epoch_after(1, now_ms)}.99999999") <= 16


def test_a_restore_ends_sessions_and_keeps_passwords(make_past, clock, tmp_path):
    past = make_past("sqlite")
    with closing(past.open()) as store:
        rows = [
            KeptRow(kind=kind, workspace="default", id="ann", body=b"{}", expires_ms=None, updated_ms=1)
            for kind in ("session", "password")
        ]
        writer = Writer(store, BlobStore(past.source.data / "blobs"), clock, incarnation="i", key=_key())
        writer.turn([Entry(keeps=[PutKept(row) for row in rows])])
    for name, with_keys in (("with", True), ("without", False)):
        taken(past, tmp_path / f"{name}.zip", clock, with_keys=with_keys)
        target = BackupSource(database="", data=tmp_path / name)
        assert brought_back(tmp_path / f"{name}.zip", target, clock).settled.sessions == 1
        with opened(target) as store:
            assert store.all_kept("session") == []
            assert [row.id for row in store.all_kept("password")] == ["ann"]


def test_keys_are_restored_only_on_request_and_the_cursor_secret_never(make_past, clock, tmp_path):
    past = make_past("sqlite")
    for name in ("cursors.secret", "admin-token.sha256"):
        (past.source.data / "keys" / name).write_text("00" * 32)
    with_keys = taken(past, tmp_path / "with.zip", clock)
    assert with_keys.keys == ("admin-token.sha256", "heads.ed25519")
    assert taken(past, tmp_path / "without.zip", clock, with_keys=False).keys == ()
    secret = (past.source.data / "keys" / "heads.ed25519").read_bytes()
    assert secret not in (tmp_path / "without.zip").read_bytes()
    brought_back(tmp_path / "with.zip", BackupSource(database="", data=tmp_path / "a"), clock)
    assert (tmp_path / "a/keys/heads.ed25519").read_bytes() == secret
    assert stat.S_IMODE((tmp_path / "a/keys/heads.ed25519").stat().st_mode) == 0o600
    assert not (tmp_path / "a/keys/cursors.secret").exists()
    brought_back(tmp_path / "without.zip", BackupSource(database="", data=tmp_path / "b"), clock)
    assert (tmp_path / "b/keys/heads.ed25519").read_bytes() != secret
    assert not (tmp_path / "b/keys/admin-token.sha256").exists()


def test_plugins_are_restored_unchanged_and_no_file_leaves_its_folder(make_past, clock, tmp_path):
    past = make_past("sqlite")
    folder = past.source.data / "plugins" / "digest"
    folder.mkdir(parents=True)
    (folder / "runner.py").write_text("code")
    (folder / "tool.sh").write_text("#!/bin/sh")
    (folder / "tool.sh").chmod(0o700)
    (folder / "link").symlink_to("/etc/passwd")
    (past.source.data / "plugins/.incoming").mkdir()
    (past.source.data / "plugins/.incoming/half.zip").write_text("an upload that is under way")
    taken(past, tmp_path / "all.zip", clock)
    brought_back(tmp_path / "all.zip", BackupSource(database="", data=tmp_path / "a"), clock)
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a/plugins/digest").iterdir()}
    assert found == {"runner.py": 0o600, "tool.sh": 0o700}
    assert [path.name for path in (tmp_path / "a/plugins").iterdir()] == ["digest"]
    for number, path in enumerate(("plugins/../../evil", "/evil", "plugins", "keys/heads.ed25519", "")):

        def renamed(manifest, path=path):
            manifest["files"][0]["path"] = path
            return manifest

        evil = _rewritten(tmp_path / "all.zip", tmp_path / f"evil{number}.zip", renamed)
        with pytest.raises(BadArchive, match="unexpected file"):
            brought_back(evil, BackupSource(database="", data=tmp_path / "b"), clock)
    assert not (tmp_path / "b").exists()
    assert not (tmp_path / "evil").exists()


def test_heads_of_an_earlier_key_verify_after_a_restore_without_keys(make_past, clock, tmp_path):
    past = make_past("sqlite")
    with closing(past.open()) as store:
        _write_some(store, past.source.data, clock, load_or_make_signing_key(past.source.data / "keys/heads.ed25519"))
    taken(past, tmp_path / "first.zip", clock, with_keys=False)
    second = BackupSource(database="", data=tmp_path / "second")
    brought_back(tmp_path / "first.zip", second, clock)
    report = back_up(second, tmp_path / "again.zip", with_keys=False, version="0.1.0", clock=clock)
    assert report.verified.heads >= 2
    assert report.verified.unknown_heads == 0


def test_a_backup_is_one_snapshot_during_writes(past, target, clock, tmp_path):
    with closing(past.open()) as store:
        stop, busy, written = threading.Event(), threading.Event(), []

        def write() -> None:
            writer = Writer(store, BlobStore(past.source.data / "blobs"), clock, incarnation="busy", key=_key())
            while not stop.is_set():
                data = encode_data({"n": len(written)})
                entry = Entry(records=[NewRecord(workspace="default", type="note", data=data, created_ms=1)])
                written.append(writer.turn([entry]))
                busy.set()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            busy.wait(20)
            reports = [taken(past, tmp_path / f"{number}.zip", clock) for number in range(3)]
        finally:
            stop.set()
            thread.join()
    counts = [report.verified.records for report in reports]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    brought_back(tmp_path / "2.zip", target, clock)
    with opened(target) as store:
        notes = [data_of(record)["n"] for record in all_records(store) if record.type == "note"]
        assert notes == list(range(len(notes)))


def test_a_restore_into_an_existing_directory_is_refused_and_changes_nothing(past, target, clock, tmp_path):
    path = tmp_path / "all.zip"
    taken(past, path, clock)
    target.data.mkdir()
    (target.data / "mine").write_text("kept")
    with pytest.raises(Conflict, match="not empty"):
        brought_back(path, target, clock)
    assert [file.name for file in target.data.iterdir()] == ["mine"]
    with pytest.raises(Conflict, match="not empty"):
        brought_back(path, BackupSource(database=past.source.database, data=past.source.data), clock)


def test_a_restore_into_a_database_with_rows_is_refused(make_past, new_database, clock, tmp_path):
    past = make_past("postgres")
    taken(past, tmp_path / "all.zip", clock)
    with pytest.raises(Conflict, match="not empty") as caught:
        brought_back(tmp_path / "all.zip", BackupSource(database=past.source.database, data=tmp_path / "new"), clock)
    assert "createdb" in caught.value.hint
    assert not (tmp_path / "new").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_restore_completes_in_a_database_of_an_interrupted_restore(make_past, new_database, clock, tmp_path):
    taken(make_past("sqlite"), tmp_path / "all.zip", clock)
    database = new_database()
    filling = PostgresLoader(database)
    filling.create("0002")
    filling.close()
    cut_off = tmp_path / ".there.999999999.restoring"
    cut_off.mkdir()
    target = BackupSource(database=database, data=tmp_path / "there")
    assert brought_back(tmp_path / "all.zip", target, clock).settled.runs == 1
    assert not cut_off.exists()
    with pytest.raises(Conflict, match="not empty"):
        brought_back(tmp_path / "all.zip", BackupSource(database=database, data=tmp_path / "again"), clock)


def test_a_backup_removes_the_partial_file_of_a_killed_backup(make_past, clock, tmp_path):
    left, another = tmp_path / ".all.zip.999999999.partial", tmp_path / f".all.zip.{os.getppid()}.partial"
    for path in (left, another):
        path.write_text("half")
    taken(make_past("sqlite"), tmp_path / "all.zip", clock)
    assert not left.exists()
    assert another.exists(), "its process is at work"


def test_a_backup_of_a_later_version_is_refused(make_past, clock, tmp_path):
    past = make_past("sqlite")
    path = tmp_path / "all.zip"
    taken(past, path, clock)
    later = _rewritten(path, tmp_path / "later.zip", lambda manifest: manifest | {"revision": "9999"})
    with pytest.raises(SchemaTooNew, match="9999"):
        brought_back(later, BackupSource(database="", data=tmp_path / "new"), clock)
    assert not (tmp_path / "new").exists()


def test_a_backup_does_not_overwrite_and_leaves_no_partial_file(make_past, clock, tmp_path):
    past = make_past("sqlite")
    path = tmp_path / "all.zip"
    path.write_text("mine")
    with pytest.raises(Conflict, match="is not overwritten"):
        taken(past, path, clock)
    assert path.read_text() == "mine"
    with pytest.raises(StorageUnavailable, match="cannot be written"):
        taken(past, tmp_path / "nowhere" / "all.zip", clock)
    (past.source.data / "keys/heads.ed25519").chmod(0o644)
    with pytest.raises(StorageUnavailable, match=r"heads\.ed25519"):
        taken(past, tmp_path / "other.zip", clock)
    assert [file.name for file in tmp_path.iterdir() if "partial" in file.name or file.name == "other.zip"] == []


def test_a_directory_without_a_database_has_no_backup(clock, tmp_path):
    with pytest.raises(NotFound, match="holds no database"):
        back_up(BackupSource(database="", data=tmp_path), tmp_path / "a.zip", with_keys=False, version="0", clock=clock)
    assert list(tmp_path.iterdir()) == []


def test_every_change_of_one_byte_is_found(make_past, clock, tmp_path):
    past = make_past("sqlite")
    path = tmp_path / "all.zip"
    taken(past, path, clock)
    whole = path.read_bytes()
    broken = tmp_path / "broken.zip"
    for at in range(0, len(whole), max(1, len(whole) // 150)):
        broken.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            with ArchiveReader(broken, "backup") as reader:
                verify(reader)
                same = reader.manifest
        except BadArchive:
            continue
        # An insignificant byte: a time or an attribute of a member. The content is the same.
        with ArchiveReader(path, "backup") as reader:
            assert same == reader.manifest


def test_a_changed_and_rehashed_log_breaks_its_chain(make_past, with_lines, clock, tmp_path):
    past = make_past("sqlite")
    taken(past, tmp_path / "all.zip", clock)

    def edited(lines):
        return [line.replace(b'"run.ended"', b'"run.begun"', 1) for line in lines]

    forged = with_lines(tmp_path / "all.zip", tmp_path / "forged.zip", "tables/records.jsonl", edited)
    with pytest.raises(BadArchive, match="broken at"):
        brought_back(forged, BackupSource(database="", data=tmp_path / "new"), clock)
    shorter = with_lines(tmp_path / "all.zip", tmp_path / "short.zip", "tables/records.jsonl", lambda lines: lines[1:])
    with pytest.raises(BadArchive, match="broken at 1"):
        brought_back(shorter, BackupSource(database="", data=tmp_path / "new"), clock)
    assert not (tmp_path / "new").exists()


def _key():
    return SigningKey(bytes(32))


def _write_some(store, data, clock, key):
    writer = Writer(store, BlobStore(data / "blobs"), clock, incarnation=os.urandom(4).hex(), key=key)
    record = NewRecord(workspace="default", type="note", data=b"{}", created_ms=1)
    writer.turn([Entry(records=[record])])
    writer.finish()


def _rewritten(path, other, change):
    def changed(members):
        return {**members, "manifest.json": json.dumps(change(json.loads(members["manifest.json"]))).encode()}

    return rewritten(path, other, changed)

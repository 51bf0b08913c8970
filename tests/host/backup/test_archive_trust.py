"""An archive is trusted for the key that signed it, and only if that key is already known. No forged archive writes
anything."""

import hashlib
import json
import tarfile
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
from tests.host.backup.conftest import believing, rewritten

from bollard.host.archive.manifest import sign_manifest
from bollard.host.archive.reader import ArchiveReader
from bollard.host.backup.archive_verification import ArchiveTrust, own_fingerprints
from bollard.host.backup.backup import BackupSource, back_up
from bollard.host.backup.restore import restore
from bollard.host.backup.workspace_export import export_workspace
from bollard.host.backup.workspace_import import import_workspace
from bollard.host.clock import SystemClock
from bollard.host.errors import BadArchive
from bollard.host.log.rebuild import rebuild
from bollard.host.store.selection import choose_store
from bollard.trust.keys import SigningKey

PAST = Path(__file__).parent / "fixtures" / "revision_0004"
FORGER = SigningKey(b"f" * 32)


@pytest.fixture
def source(tmp_path):
    with tarfile.open(PAST / "data.tar.xz") as archive:
        archive.extractall(tmp_path, filter="tar")
    return BackupSource(database="", data=tmp_path / "data")


def opened(source):
    store = choose_store(source.database, source.data, SystemClock())
    store.open()
    return closing(store)


def restored(path, target, trust):
    return restore(path, data=target.data, database="", trust=trust, clock=SystemClock())


def imported(path, target, trust):
    return import_workspace(path, target, trust=trust, clock=SystemClock())


@pytest.fixture
def archives(source, tmp_path):
    """A backup and an export of one host, each with the way in."""
    back_up(source, tmp_path / "all.zip", with_keys=True, version="0.1.0", clock=SystemClock())
    export_workspace(source, "default", tmp_path / "w.zip", version="0.1.0", clock=SystemClock())
    return ((tmp_path / "all.zip", restored), (tmp_path / "w.zip", imported))


def with_row(members, table, change):
    """The members with other rows of a table, and with the digest of those in the manifest."""
    name = f"tables/{table}.jsonl"
    body = b"".join(json.dumps(row).encode() + b"\n" for row in change([*map(json.loads, members[name].splitlines())]))
    manifest = json.loads(members["manifest.json"])
    noted = {"size": len(body), "sha256": hashlib.sha256(body).hexdigest(), "lines": body.count(b"\n")}
    manifest["members"][name] = noted
    return {**members, name: body, "manifest.json": json.dumps(manifest).encode()}


def forged(members):
    """A delta of a run is changed: no chain covers it, only the manifest does."""
    assert members["tables/deltas.jsonl"]
    return with_row(members, "deltas", lambda rows: rows[1:])


def kept_signature(path, other, change):
    """Written again under the signature that the archive had."""
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(other, "w") as new:
        for name, content in change(members).items():
            new.writestr(name, content)
    return other


def signed_again(members):
    """Signed by the key of the forger."""
    return {**members, "signature.json": sign_manifest(members["manifest.json"], FORGER)}


def test_an_archive_changed_under_its_signature_is_refused_and_writes_nothing(source, archives, tmp_path):
    trust = ArchiveTrust(fingerprints=own_fingerprints([source.data]), unsigned=True)
    for path, bring in archives:
        target = BackupSource(database="", data=tmp_path / f"new-{bring.__name__}")
        other = kept_signature(path, path.with_name(f"forged-{path.name}"), forged)
        with pytest.raises(BadArchive, match="its signature does not match"):
            bring(other, target, trust)
        assert not target.data.exists()


def test_an_archive_of_an_unknown_signer_is_refused_despite_its_own_key(source, archives, tmp_path):
    trust = ArchiveTrust(fingerprints=own_fingerprints([source.data]), unsigned=True)
    for path, bring in archives:
        target = BackupSource(database="", data=tmp_path / f"new-{bring.__name__}")
        other = path.with_name(f"forged-{path.name}")
        kept_signature(path, other, lambda members: signed_again(forged(members)))
        with pytest.raises(BadArchive, match=FORGER.verify_key.fingerprint) as caught:
            bring(other, target, trust)
        assert caught.value.details["distrust"] == "unknown_signer"
        assert not target.data.exists()


def test_an_archive_with_a_removed_signature_needs_an_explicit_choice(source, archives, tmp_path):
    known = own_fingerprints([source.data])
    for path, bring in archives:
        target = BackupSource(database="", data=tmp_path / f"new-{bring.__name__}")
        bare = kept_signature(path, path.with_name(f"bare-{path.name}"), without_signature)
        with pytest.raises(BadArchive, match="it has no signature"):
            bring(bare, target, ArchiveTrust(fingerprints=known, unsigned=True))
        older = rewritten(path, path.with_name(f"older-{path.name}"), lambda members: members)
        with pytest.raises(BadArchive, match="is not signed") as caught:
            bring(older, target, ArchiveTrust(fingerprints=known))
        assert caught.value.details["distrust"] == "unsigned"
        assert not target.data.exists()
        bring(older, target, ArchiveTrust(unsigned=True))
        assert target.data.exists()


def without_signature(members):
    return {name: content for name, content in members.items() if name != "signature.json"}


def test_an_archive_of_a_trusted_key_is_restored_and_no_key_is_trusted_by_default(source, archives, tmp_path):
    for path, bring in archives:
        target = BackupSource(database="", data=tmp_path / f"new-{bring.__name__}")
        with pytest.raises(BadArchive, match="not known here"):
            bring(path, target, ArchiveTrust())
        assert not target.data.exists()
        bring(path, target, ArchiveTrust(fingerprints=own_fingerprints([tmp_path / "nowhere", source.data])))
        assert target.data.exists()


def test_a_public_key_from_an_archive_makes_no_other_archive_trusted(source, archives, tmp_path):
    """An import keeps the public halves that an archive names, so that old heads can be verified."""
    path, bring = archives[1]
    target = BackupSource(database="", data=tmp_path / "there")
    bring(path, target, believing(path))
    assert [*(target.data / "keys").glob("heads.*.pub")] != []
    assert not own_fingerprints([target.data]) & own_fingerprints([source.data])


def test_an_unreadable_key_folder_adds_no_trusted_key(source, tmp_path):
    """As in a data directory of another user. Root may look everywhere, but at no name of this length."""
    assert own_fingerprints([tmp_path / ("x" * 300), source.data]) == own_fingerprints([source.data])


def test_an_archive_with_an_invalid_time_is_refused_first(archives):
    for path, bring in archives:
        kind = {restored: "backup", imported: "workspace"}[bring]
        for moment in (-1, 253_402_300_800_000):
            other = path.with_name(f"{moment}-{path.name}")
            kept_signature(path, other, lambda members, moment=moment: signed_again(made_at(members, moment)))
            with pytest.raises(BadArchive, match="its manifest cannot be read"), ArchiveReader(other, kind):
                pass


def made_at(members, moment):
    manifest = {**json.loads(members["manifest.json"]), "created_ms": moment}
    return {**members, "manifest.json": json.dumps(manifest).encode()}


def test_projections_are_rebuilt_from_the_log_and_not_from_the_archive(tmp_path):
    """In an archive of before, which has rows of projections: a forged user is not there after the restore."""

    def forged_user(members):
        return with_row(members, "users", lambda rows: [*rows, [rows[0][0], "eve", *rows[0][2:]]])

    path = rewritten(PAST / "backup.zip", tmp_path / "forged.zip", forged_user)
    target = BackupSource(database="", data=tmp_path / "there")
    restored(path, target, ArchiveTrust(unsigned=True))
    with opened(target) as store:
        assert [row.id for row in store.policies("user", "default")] == ["ann"]
        found = store.dump_projections()
        rebuild(store)
        assert store.dump_projections() == found


def test_a_new_backup_has_no_rows_of_projections(archives):
    with zipfile.ZipFile(archives[0][0]) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    assert {table["name"] for table in manifest["tables"]} == {"records", "deltas", "heads", "kept", "meta"}


def test_a_replay_of_the_log_keeps_all_projections_also_after_retention(source, tmp_path):
    """All projections that a restore does not settle are those of the host, row by row."""
    with opened(source) as store:
        with store.write() as transaction:
            assert transaction.drop_data(["event.received", "message.completed"], 1 << 60, 2) == 2
        before = store.dump_projections()
        deltas = [row for run in before["runs"] for row in store.deltas_of_run(run[0], 0)]
    path, target = tmp_path / "all.zip", BackupSource(database="", data=tmp_path / "there")
    back_up(source, path, with_keys=True, version="0.1.0", clock=SystemClock())
    restored(path, target, believing(path))
    settled = {"runs", "approvals", "tool_calls"}
    with opened(target) as store:
        found = store.dump_projections()
        assert {run[0] for run in found["runs"]} == {run[0] for run in before["runs"]}
        assert [row for run in found["runs"] for row in store.deltas_of_run(run[0], 0)] == deltas
    assert {name: found[name] for name in found.keys() - settled} == {
        name: rows for name, rows in before.items() if name not in settled
    }

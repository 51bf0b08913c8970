"""Contents are copied with their references: into a backup, into an export, and back. An incomplete copy is refused."""

import json
import tarfile
import zipfile
from contextlib import closing
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from tests.host.backup.conftest import believing, rewritten

from bollard.host.backup.backup import BackupSource, back_up
from bollard.host.backup.content_references import FOLLOWED
from bollard.host.backup.restore import restore
from bollard.host.backup.workspace_export import export_workspace
from bollard.host.backup.workspace_import import import_workspace
from bollard.host.clock import SystemClock
from bollard.host.errors import BadArchive, StorageUnavailable
from bollard.host.log.entries import Entry
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.log.writer import Writer
from bollard.host.skills.repository import ContentFiles
from bollard.host.skills.skill import kept_from_store
from bollard.host.store.blobs import BlobStore
from bollard.host.store.rows import Change
from bollard.host.store.selection import choose_store
from bollard.trust.keys import load_or_make_signing_key

PAST = Path(__file__).parent / "fixtures" / "revision_0004"
HELD = json.loads((PAST / "held.json").read_text(encoding="utf-8"))
LETTER = b"A letter that is no JSON becomes an artifact of its event.\n"


@pytest.fixture
def source(tmp_path):
    """A store with an event whose data became an artifact, a file, a runner's artifact, and a skill."""
    with tarfile.open(PAST / "data.tar.xz") as archive:
        archive.extractall(tmp_path, filter="tar")
    return BackupSource(database="", data=tmp_path / "data")


@pytest.fixture
def there(tmp_path):
    return BackupSource(database="", data=tmp_path / "there")


def opened(source):
    store = choose_store(source.database, source.data, SystemClock())
    store.open()
    return closing(store)


def backed_up(source, path, **options):
    return back_up(source, path, with_keys=True, version="0.1.0", clock=SystemClock(), **options)


def exported(source, path, **options):
    return export_workspace(source, "default", path, version="0.1.0", clock=SystemClock(), **options)


def imported(path, target, **options):
    return import_workspace(path, target, trust=believing(path), clock=SystemClock(), **options)


def restored(path, target, **options):
    trust = believing(path)
    return restore(path, data=target.data, database=target.database, trust=trust, clock=SystemClock(), **options)


COPIES = ((backed_up, restored), (exported, imported))


def contents_of(source):
    """The contents that rows name, each as it is read: artifacts, files, and the files of skills."""
    with opened(source) as store:
        artifacts = store.dump_projections()["artifacts"]
        digests = {value for row in artifacts for value in row if isinstance(value, str) and len(value) == 64}
        (skill,) = (kept_from_store(json.loads(row.body), "default") for row in store.policies("skill", "default"))
    blobs, files = BlobStore(source.data / "blobs"), ContentFiles(source.data / "skills")
    return {**{each: blobs.read(each) for each in digests}, **{e: files.read("default", e) for e in skill.contents}}


def test_every_content_named_in_the_log_is_copied_and_restored(source, tmp_path):
    before = contents_of(source)
    assert LETTER in before.values()
    assert len(before) == 4
    for copied, brought in COPIES:
        target = BackupSource(database="", data=tmp_path / brought.__name__)
        assert copied(source, tmp_path / f"{copied.__name__}.zip").missing == ()
        brought(tmp_path / f"{copied.__name__}.zip", target)
        assert contents_of(target) == before


def lost_files(source):
    """One file for each content: those of blobs, and those of skills."""
    blobs = source.data / "blobs" / "sha256"
    return [path for folder in (blobs, source.data / "skills") for path in sorted(folder.rglob("*")) if path.is_file()]


def test_a_copy_that_misses_a_content_of_the_log_is_refused_by_its_name(source, tmp_path):
    for path in lost_files(source):
        content, path_there = path.read_bytes(), tmp_path / "copy.zip"
        path.unlink()
        for copied, _ in COPIES:
            with pytest.raises(StorageUnavailable, match=path.name) as caught:
                copied(source, path_there)
            assert "--incomplete" in caught.value.hint
            assert not path_there.exists()
        path.write_bytes(content)


def test_an_incomplete_copy_lists_the_missing_contents_both_ways(source, tmp_path):
    for number, path in enumerate(lost_files(source)):
        content = path.read_bytes()
        path.unlink()
        for copied, brought in COPIES:
            archive = tmp_path / f"{copied.__name__}-{number}.zip"
            target = BackupSource(database="", data=tmp_path / f"{brought.__name__}-{number}")
            assert copied(source, archive, incomplete=True).missing == (path.name,)
            assert brought(archive, target).missing == (path.name,)
        path.write_bytes(content)


def without_letter(members):
    kept = {name: content for name, content in members.items() if content != LETTER}
    manifest = json.loads(kept["manifest.json"])
    return {**kept, "manifest.json": json.dumps({**manifest, "blobs": manifest["blobs"] - 1}).encode()}


def test_an_archive_without_one_of_its_contents_is_refused_before_any_write(source, there, tmp_path):
    for copied, brought in COPIES:
        whole, broken = tmp_path / f"{copied.__name__}.zip", tmp_path / f"{copied.__name__}-broken.zip"
        copied(source, whole)
        rewritten(whole, broken, without_letter)
        with pytest.raises(BadArchive, match=HELD["event_artifact"]):
            brought(broken, there)
        assert not there.data.exists()


def test_a_deleted_or_expired_content_is_not_copied(source, tmp_path):
    """The references at the end of the log count, however often the same content was there before."""
    with opened(source) as store:
        letter = store.artifact("default", HELD["event_artifact"])
        key = load_or_make_signing_key(source.data / "keys/heads.ed25519")
        writer = Writer(store, BlobStore(source.data / "blobs"), SystemClock(), incarnation="later", key=key)
        data = encode_data({"artifact_id": letter.artifact_id, "by": "ann"})
        record = NewRecord(workspace="default", type="artifact.deleted", data=data, created_ms=1)
        writer.turn([Entry(records=[record])])
        writer.finish()
    for copied, _ in COPIES:
        path = tmp_path / f"{copied.__name__}.zip"
        assert copied(source, path).missing == ()
        with zipfile.ZipFile(path) as archive:
            assert f"blobs/{letter.sha256}" not in archive.namelist()


def test_every_row_that_has_a_digest_of_a_content_is_followed():
    """A new row with a `sha256` fails here: it is a reference to a content."""
    rows = {each: get_type_hints(each).get("row") for each in get_args(Change)}
    named = {put for put, row in rows.items() if row is not None and "sha256" in row.__struct_fields__}
    assert {each.__name__ for each in named} == {"PutArtifact", "PutStorage"}
    assert named == FOLLOWED.keys()

"""The restore of a backup into an empty directory and database, completely or not at all.

The log is restored unchanged, and the projections are rebuilt from it. The directory is built beside its destination
and moved there at the end. The store is a past state, so its unfinished work is settled first (`settlement`), and a
record says that the store was restored.
"""

import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bollard.host.archive.manifest import Manifest, Table
from bollard.host.archive.reader import ArchiveReader
from bollard.host.archive.writer import remove_leftovers, unfinished_name
from bollard.host.audit.erasure_list import Erasure, add_erasure
from bollard.host.backup.archive_verification import ArchiveTrust, Progress, Verified, no_progress, read_rows, verify
from bollard.host.backup.archived_files import head_key, place_of, write_file, write_public_keys
from bollard.host.backup.backup import BackupSource
from bollard.host.backup.settlement import Settlement, SettlementWriter
from bollard.host.backup.table_source import open_filling
from bollard.host.backup.tables import Row, TableLoader
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, SchemaTooNew, StorageUnavailable, caused_by
from bollard.host.log.rebuild import UNSETTLED, rebuild
from bollard.host.store.blobs import BlobStore
from bollard.host.store.kept_key import KEPT_KEY
from bollard.host.store.migrations import REVISIONS
from bollard.host.store.selection import choose_store
from bollard.host.store.statements import PROJECTIONS
from bollard.host.store.store import Store
from bollard.protocol import JsonObject
from bollard.trust import make_folder, sync_folder

_DEFAULT_WORKSPACE: Final = "default"
_OF_THE_DISK: Final = "lost+found"
"""The only entry of an empty file system."""
_DATABASE: Final = "bollard.db"


class RestoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a restore."""

    created_ms: int
    version: str
    verified: Verified
    settled: Settlement
    keys: tuple[str, ...]
    """The restored key files; without them the next start creates new ones."""
    missing: tuple[str, ...]


def restore(
    file: Path,
    *,
    data: Path,
    database: str,
    trust: ArchiveTrust,
    clock: Clock,
    incomplete: bool = False,
    erasures: Sequence[Erasure] = (),
    progress: Progress = no_progress,
) -> RestoreReport:
    """Check the signer of the archive, verify it, then restore it. Raises `BadArchive`, `Conflict`, `SchemaTooNew`.
    With `incomplete`, an archive with missing contents is restored too. `erasures` are applied to the copy again."""
    data = data.absolute()
    place = data / data.name if data.is_mount() else data  # a mounted folder cannot be replaced, only filled
    with ArchiveReader(file, "backup") as reader:
        trust.check(reader)
        remove_leftovers(place, "restoring")
        _check_empty(data)
        _check_revision(reader.manifest)
        verified = verify(
            reader, lambda stage, done, total: progress(f"verify_{stage}", done, total), incomplete=incomplete
        )
        workshop = unfinished_name(place, "restoring")
        filling = open_filling(database, workshop)
        try:
            target = BackupSource(database=database, data=workshop)
            blobs = _build(reader, filling, workshop, progress)
            settled = _settle(reader.manifest, verified, target, blobs, clock, erasures, progress)
            _move(workshop, data)
        except BaseException:
            filling.abandon()
            shutil.rmtree(workshop, ignore_errors=True)
            raise
        finally:
            filling.close()
        manifest = reader.manifest
    return RestoreReport(
        created_ms=manifest.created_ms,
        version=manifest.version,
        verified=verified,
        settled=settled,
        keys=manifest.keys,
        missing=verified.missing,
    )


def put_blob(blobs: BlobStore, reader: ArchiveReader, sha256: str) -> None:
    """Copy one content of an archive, in pieces."""
    upload, offset = blobs.begin(), 0
    for piece in reader.blob(sha256):
        offset = blobs.append(upload, offset, piece)
    blobs.finish(upload, sha256)


def new_incarnation(clock: Clock) -> str:
    """A new, unique name for a chain."""
    return f"{clock.now_ms():011x}{secrets.token_hex(4)}"


def _check_empty(data: Path) -> None:
    try:
        if data.exists() and (not data.is_dir() or any(path.name != _OF_THE_DISK for path in data.iterdir())):
            raise Conflict(
                f"{data} is not empty",
                reason="directory_not_empty",
                hint="restore into a directory that is new or empty",
                path=str(data),
            )
    except OSError as error:
        raise _directory_unusable(data, error) from error


def _directory_unusable(path: Path, error: OSError) -> StorageUnavailable:
    return StorageUnavailable(
        f"{path} cannot be used: {error.strerror}",
        reason="directory_unusable",
        hint="choose another directory",
        path=str(path),
        **caused_by(error),
    )


def _check_revision(manifest: Manifest) -> None:
    if manifest.revision not in REVISIONS.known:
        raise SchemaTooNew(
            f"the backup has revision {manifest.revision}, this version knows up to {REVISIONS.known[-1]}",
            reason="backup_too_new",
            hint=f"restore it with version {manifest.version}",
            stored=manifest.revision,
            known=REVISIONS.known[-1],
            version=manifest.version,
        )


def _build(reader: ArchiveReader, filling: TableLoader, workshop: Path, progress: Progress) -> BlobStore:
    """Write every file, content and row of the archive. Returns the blob store."""
    try:
        make_folder(workshop, 0o700)
        _write_files(reader, workshop)
    except OSError as error:
        raise _directory_unusable(workshop.parent, error) from error
    blobs = BlobStore(workshop / "blobs")
    for count, sha256 in enumerate(reader.blobs, start=1):
        put_blob(blobs, reader, sha256)
        progress("blobs", count, reader.manifest.blobs)
    filling.create(reader.manifest.revision)
    filling.begin()
    # Old archives contain projections too. They are ignored and rebuilt from the log.
    tables = [table for table in reader.manifest.tables if table.name not in PROJECTIONS]
    total = sum(reader.manifest.members[table.member].lines for table in tables)
    done = 0
    for table in tables:
        rows = _told(reader, table, done, total, progress)
        if table.name == "meta":
            rows = _unsettled(table, rows)
        filling.fill(table, rows if KEPT_KEY in reader.manifest.keys else _without_macs(table, rows))
        done += reader.manifest.members[table.member].lines
    filling.commit()
    return blobs


def _told(reader: ArchiveReader, table: Table, done: int, total: int, progress: Progress) -> Iterator[Row]:
    for count, row in enumerate(read_rows(reader, table.name), start=1):
        if not count % 1000:
            progress("rows", done + count, total)
        yield row
    progress("rows", done + reader.manifest.members[table.member].lines, total)


def _unsettled(table: Table, rows: Iterator[Row]) -> Iterator[Row]:
    """Mark the rows, so that no host starts on them before `_settle` is complete: a restore may be interrupted."""
    key = table.index("key")
    yield from (row for row in rows if row[key] != UNSETTLED)
    yield ["the restore of a backup" if index != key else UNSETTLED for index in range(len(table.columns))]


def _without_macs(table: Table, rows: Iterator[Row]) -> Iterator[Row]:
    """Drop the HMACs if the archive lacks their key: the restored store creates a new key and new HMACs."""
    if table.name != "kept" or not table.has("mac"):
        return rows
    mac = table.index("mac")
    return ([None if index == mac else value for index, value in enumerate(row)] for row in rows)


def _write_files(reader: ArchiveReader, workshop: Path) -> None:
    manifest = reader.manifest
    for name in manifest.keys:
        write_file(workshop / "keys" / name, reader.pieces(f"keys/{name}"))
    write_public_keys(workshop, manifest.public_keys)
    for note in manifest.files:
        write_file(place_of(workshop, note.path), reader.pieces(note.member), executable=note.executable)


def _settle(
    manifest: Manifest,
    verified: Verified,
    target: BackupSource,
    blobs: BlobStore,
    clock: Clock,
    erasures: Sequence[Erasure],
    progress: Progress,
) -> Settlement:
    """Open the store, which also migrates it; rebuild the projections, and settle unfinished work."""
    store = choose_store(target.database, target.data, clock)
    store.open()
    try:
        rebuild(store, lambda done: progress("projections", done, verified.records))
        settler = SettlementWriter(store, blobs, clock, incarnation=new_incarnation(clock), key=head_key(target.data))
        data: JsonObject = {
            "backup_ms": manifest.created_ms,
            "version": manifest.version,
            "keys": bool(manifest.keys),
            "missing": len(verified.missing),
        }
        settled = settler.settle(_workspaces(store), "store.restored", data, erasures=erasures, data=target.data)
        for erasure in erasures:
            add_erasure(target.data, erasure)
        return settled
    finally:
        store.close()


def _workspaces(store: Store) -> list[str]:
    saved = {row.workspace for row in store.policies_everywhere("workspace")}
    return sorted({_DEFAULT_WORKSPACE, *saved})


def _move(workshop: Path, data: Path) -> None:
    try:
        if workshop.parent == data:
            for path in sorted(workshop.iterdir(), key=lambda path: path.name == _DATABASE):  # the database is last
                path.rename(data / path.name)
            workshop.rmdir()
            sync_folder(data)
            return
        if data.exists():
            data.rmdir()  # it is empty, or this fails
        workshop.rename(data)
        sync_folder(data.parent)
    except OSError as error:
        raise _directory_unusable(data, error) from error

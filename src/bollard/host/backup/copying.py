"""Takes a backup of a store, while its host runs: rows of one moment first, then the contents that they name.

A content is on disk before the row that names it, so what the rows of that moment name is there afterwards, unless it
expired meanwhile.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import msgspec

from bollard.host.archive.manifest import FileNote, Manifest, Table
from bollard.host.archive.reading import FORMAT, ArchiveReader
from bollard.host.archive.writing import ArchiveWriter
from bollard.host.backup.boundary import Snapshot
from bollard.host.backup.data_files import KEPT_FOLDERS, files_below, key_files, public_keys, read_small
from bollard.host.backup.knowledge_files import copy_documents
from bollard.host.backup.opening import open_snapshot
from bollard.host.backup.verifying import REFERRING, Progress, Verified, untold, verify
from bollard.host.clock import Clock
from bollard.host.errors import NotFound
from bollard.host.store.blobs import BlobStore

__all__ = ["BackupReport", "Source", "back_up", "copy_blobs", "copy_table", "readable_snapshot"]

_encode: Final = msgspec.json.Encoder().encode
_PIECE_BYTES: Final = 1 << 20
_TOLD_EVERY: Final = 1000
"""Rows between two words about how far it is."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The store that is copied."""

    database: str
    data: Path


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a new archive."""

    size: int
    tables: dict[str, int]
    verified: Verified
    missing: tuple[str, ...]
    """Contents that rows refer to and that the data directory does not have any more."""
    keys: tuple[str, ...]


def back_up(
    source: Source,
    file: Path,
    *,
    with_keys: bool,
    version: str,
    clock: Clock,
    progress: Progress = untold,
) -> BackupReport:
    """Write the archive, verify it, then give it its name. Raises what storage and archives raise."""
    with ArchiveWriter(file) as writer:
        snapshot = readable_snapshot(source)
        try:
            moment = clock.now_ms()
            tables = snapshot.tables()
            named = _copy_rows(snapshot, tables, writer, progress)
            revision = snapshot.revision or ""
        finally:
            snapshot.close()
        missing = copy_blobs(writer, BlobStore(source.data / "blobs"), named, progress)
        keys = tuple(path.name for path in key_files(source.data)) if with_keys else ()
        for name in keys:
            with writer.member(f"keys/{name}") as member:
                member.write(read_small(source.data / "keys" / name))
        manifest = Manifest(
            kind="backup",
            format=FORMAT,
            version=version,
            created_ms=moment,
            revision=revision,
            tables=tuple(tables),
            members=writer.members,
            blobs=writer.blobs,
            missing=tuple(missing),
            public_keys=public_keys(source.data),
            keys=keys,
            files=(
                *_copy_files(source.data, writer),
                *copy_documents(writer, source.database, source.data),
            ),
        )
        writer.finish(manifest)
        with ArchiveReader(writer.unnamed, "backup") as reader:
            verified = verify(reader, lambda stage, done, total: progress(f"verify_{stage}", done, total))
        writer.name()
    counts = {table.name: writer.members[table.member].lines for table in tables}
    size = file.stat().st_size
    return BackupReport(size=size, tables=counts, verified=verified, missing=_still_named(source, missing), keys=keys)


def readable_snapshot(source: Source) -> Snapshot:
    """This moment of a store that has a schema."""
    snapshot = open_snapshot(source.database, source.data)
    if snapshot.revision is None:
        snapshot.close()
        raise NotFound("the database is empty", hint="start a host on it first")
    return snapshot


def copy_table(snapshot: Snapshot, table: Table, writer: ArchiveWriter, workspace: str | None = None) -> Iterator[int]:
    """The rows of a table as lines; yields how many there are so far, now and then."""
    count = 0
    with writer.member(table.member) as member:
        for row in snapshot.rows(table, workspace):
            member.line(_encode(row))
            count += 1
            if not count % _TOLD_EVERY:
                yield count
    yield count


def _copy_rows(snapshot: Snapshot, tables: list[Table], writer: ArchiveWriter, progress: Progress) -> list[str]:
    """Every row of the moment; returns the digests that they name, in order."""
    total = sum(snapshot.count(table) for table in tables)
    done = 0
    named: set[str] = set()
    for table in tables:
        count = 0
        for count in copy_table(snapshot, table, writer):
            progress("rows", done + count, total)
        done += count
        if table.name in REFERRING:
            at = table.index("sha256")
            named.update(cast("str", row[at]) for row in snapshot.rows(table) if row[at] is not None)
    return sorted(named)


def copy_blobs(writer: ArchiveWriter, blobs: BlobStore, named: list[str], progress: Progress) -> list[str]:
    """Those of these contents that are there; returns the others."""
    missing: list[str] = []
    for count, sha256 in enumerate(named, start=1):
        try:
            blobs.size(sha256)
        except NotFound:
            missing.append(sha256)
        else:
            writer.blob(sha256, blobs.stream(sha256))
        progress("blobs", count, len(named))
    return missing


def _still_named(source: Source, missing: list[str]) -> tuple[str, ...]:
    """Those of these contents that rows name now: what expired since the backup began is no loss."""
    if not missing:
        return ()
    snapshot = readable_snapshot(source)
    try:
        tables = [table for table in snapshot.tables() if table.name in REFERRING]
        named = {row[table.index("sha256")] for table in tables for row in snapshot.rows(table)}
    finally:
        snapshot.close()
    return tuple(sha256 for sha256 in missing if sha256 in named)


def _copy_files(data: Path, writer: ArchiveWriter) -> Iterator[FileNote]:
    for number, (path, executable) in enumerate(files_below(data, KEPT_FOLDERS)):
        name = f"files/{number:06d}"
        try:
            file = path.open("rb")
        except FileNotFoundError:  # removed since it was listed
            continue
        with file, writer.member(name) as member:
            while piece := file.read(_PIECE_BYTES):
                member.write(piece)
        yield FileNote(path=path.relative_to(data).as_posix(), member=name, executable=executable)

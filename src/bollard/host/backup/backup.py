"""The backup of a store while its host runs: first the rows of one snapshot, then the contents that they name.

A content is on disk before the row that names it. The contents of the snapshot are therefore present when they are
copied, unless they expired meanwhile.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from bollard.host.archive.manifest import FileNote, Manifest, Table
from bollard.host.archive.reader import FORMAT, ArchiveReader
from bollard.host.archive.writer import ArchiveWriter
from bollard.host.backup.archive_verification import Progress, Verified, no_progress, verify
from bollard.host.backup.archived_files import (
    KEPT_FOLDERS,
    copy_documents,
    files_below,
    head_key,
    key_files,
    public_keys,
    read_small,
)
from bollard.host.backup.content_references import ContentReferences
from bollard.host.backup.table_source import open_snapshot
from bollard.host.backup.tables import Row, Snapshot
from bollard.host.clock import Clock
from bollard.host.errors import NotFound, StorageUnavailable
from bollard.host.settings import Settings
from bollard.host.store.blobs import BlobStore
from bollard.host.store.database import build_rows
from bollard.host.store.rows import RecordRow
from bollard.host.store.statements import PROJECTIONS

_encode: Final = msgspec.json.Encoder().encode
_PIECE_BYTES: Final = 1 << 20
_TOLD_EVERY: Final = 1000
"""Rows between two progress reports."""


class BackupSource(msgspec.Struct, frozen=True, kw_only=True):
    """The store to copy."""

    database: str
    data: Path
    knowledge_database: str = ""
    """The URL of the tables of knowledge bases, if they are not those of `database`."""

    @classmethod
    def of(cls, settings: Settings) -> "BackupSource":
        """The store of a host."""
        return cls(database=settings.database, data=settings.data, knowledge_database=settings.knowledge_database)

    @property
    def documents(self) -> str:
        """The database with the documents; empty for SQLite."""
        return self.knowledge_database or self.database


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a new archive."""

    size: int
    tables: dict[str, int]
    verified: Verified
    signed_by: str
    """The fingerprint of the key that signed it."""
    missing: tuple[str, ...]
    """Contents that the log names and the data directory lacks; empty unless the backup is `incomplete`."""
    keys: tuple[str, ...]


def back_up(
    source: BackupSource,
    file: Path,
    *,
    with_keys: bool,
    version: str,
    clock: Clock,
    incomplete: bool = False,
    progress: Progress = no_progress,
) -> BackupReport:
    """Write the archive, verify it, then give it its final name. Raises errors of storage and archives; also for a
    missing content, unless the backup may be `incomplete`."""
    with ArchiveWriter(file) as writer:
        snapshot = readable_snapshot(source)
        try:
            moment = clock.now_ms()
            # A restore rebuilds the projections from the log, so they are not copied.
            tables = [table for table in snapshot.tables() if table.name not in PROJECTIONS]
            references = _copy_rows(snapshot, tables, writer, progress)
            revision = snapshot.revision or ""
        finally:
            snapshot.close()
        missing = copy_blobs(writer, source, references.blobs(moment), progress)
        files = tuple(_copy_files(source.data, writer))
        places = {note.path for note in files}
        missing |= {file.sha256: label for file, label in references.skill_files().items() if file.path not in places}
        lost = lost_contents(source, missing, clock.now_ms(), incomplete=incomplete)
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
            missing=tuple(sorted(missing)),
            public_keys=public_keys(source.data),
            keys=keys,
            files=(*files, *copy_documents(writer, source.documents, source.data)),
        )
        key = head_key(source.data)
        writer.finish(manifest, key)
        with ArchiveReader(writer.unnamed, "backup") as reader:
            verified = verify(reader, lambda stage, done, total: progress(f"verify_{stage}", done, total))
        writer.name()
    counts = {table.name: writer.members[table.member].lines for table in tables}
    size = file.stat().st_size
    return BackupReport(
        size=size, tables=counts, verified=verified, signed_by=key.verify_key.fingerprint, missing=lost, keys=keys
    )


def readable_snapshot(source: BackupSource) -> Snapshot:
    """A snapshot of a store that has a schema. Raises `NotFound` if it has none."""
    snapshot = open_snapshot(source.database, source.data)
    if snapshot.revision is None:
        snapshot.close()
        raise NotFound("the database is empty", reason="database_empty", hint="start a host on it first")
    return snapshot


def unchanged(row: Row) -> Row:
    """The row unchanged."""
    return row


def copy_table(
    snapshot: Snapshot,
    table: Table,
    writer: ArchiveWriter,
    workspace: str | None = None,
    shown: Callable[[Row], Row] = unchanged,
) -> Iterator[int]:
    """Write the rows of a table as lines, each converted by `shown`; yields the count at intervals."""
    count = 0
    with writer.member(table.member) as member:
        for row in snapshot.rows(table, workspace):
            member.line(_encode(shown(row)))
            count += 1
            if not count % _TOLD_EVERY:
                yield count
    yield count


def _copy_rows(snapshot: Snapshot, tables: list[Table], writer: ArchiveWriter, progress: Progress) -> ContentReferences:
    """Write every row of the snapshot; returns the references of the records."""
    total = sum(snapshot.count(table) for table in tables)
    done = 0
    references = ContentReferences()

    def followed(row: Row) -> Row:
        references.feed(build_rows(RecordRow, [tuple(row)]))
        return row

    for table in tables:
        count = 0
        for count in copy_table(snapshot, table, writer, None, followed if table.name == "records" else unchanged):
            progress("rows", done + count, total)
        done += count
    return references


Missing = dict[str, str]
"""Missing contents by digest, each with a resource that names it."""


def copy_blobs(writer: ArchiveWriter, source: BackupSource, named: Mapping[str, str], progress: Progress) -> Missing:
    """Write the existing contents; returns the missing ones."""
    blobs, missing = BlobStore(source.data / "blobs"), Missing()
    for count, sha256 in enumerate(sorted(named), start=1):
        try:
            blobs.size(sha256)
        except NotFound:
            missing[sha256] = named[sha256]
        else:
            writer.blob(sha256, blobs.stream(sha256))
        progress("blobs", count, len(named))
    return missing


def lost_contents(source: BackupSource, missing: Missing, now_ms: int, *, incomplete: bool) -> tuple[str, ...]:
    """The missing contents that the log still names; contents that were deleted or expired since the copy began do not
    count. Raises `StorageUnavailable` unless the copy may be `incomplete`."""
    lost = sorted(missing.keys() & named_contents(source, now_ms)) if missing else []
    if lost and not incomplete:
        raise StorageUnavailable(
            f"the content {lost[0]} ({missing[lost[0]]}) is not in the data directory",
            reason="content_missing",
            hint="restore its file from an earlier backup, or write the copy without it: --incomplete",
            content=lost[0],
            named_by=missing[lost[0]],
            contents=len(lost),
        )
    return tuple(lost)


def named_contents(source: BackupSource, now_ms: int) -> set[str]:
    """The digests of the contents that the log names now."""
    snapshot, references = readable_snapshot(source), ContentReferences()
    try:
        records = next(table for table in snapshot.tables() if table.name == "records")
        references.feed(read for row in snapshot.rows(records) for read in build_rows(RecordRow, [tuple(row)]))
    finally:
        snapshot.close()
    return {*references.blobs(now_ms), *(file.sha256 for file in references.skill_files())}


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

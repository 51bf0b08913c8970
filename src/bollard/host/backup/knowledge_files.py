"""Documents of knowledge bases as files of an archive. What was made of them (chunks, vectors, indices) is left out: a
host that finds such files in its data directory takes them in and indexes them anew.

Read from the tables of the knowledge process, which may be at work meanwhile: one moment of them, and never written.
"""

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from bollard.host.archive.manifest import FileNote
from bollard.host.archive.writing import ArchiveWriter
from bollard.host.errors import BadArchive, InvalidRequest, StorageUnavailable
from bollard.host.knowledge.incoming import FOLDER, SUFFIX, head_of, read_head
from bollard.host.knowledge.limits import INCOMING_HEAD_BYTES

__all__ = ["check_documents", "copy_documents"]

_FILE: Final = "knowledge.sqlite"
_TABLE: Final = "knowledge_documents"
_ROWS: Final = (
    "SELECT base.workspace, base.kb_id, document.document_id, document.name, document.mime_type, document.source, "
    "document.metadata, content.body FROM knowledge_documents AS document "
    "JOIN knowledge_bases AS base ON base.number = document.base "
    "JOIN knowledge_contents AS content ON content.document = document.number "
)
_ORDER: Final = "ORDER BY document.number"
_OF_ONE: Final = "WHERE base.workspace = "
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


def copy_documents(
    writer: ArchiveWriter, database: str, data: Path, workspace: str | None = None
) -> Iterator[FileNote]:
    """Every document, or those of one workspace. Raises `StorageUnavailable`."""
    named = secrets.token_hex(4)  # files of an earlier import may wait under theirs
    for number, row in enumerate(_postgres(database, workspace) if database else _sqlite(data, workspace)):
        where, kb_id, document_id, name, mime_type, source, metadata, body = row
        member = f"files/document-{number:06d}"
        head = head_of(
            workspace=where,
            kb_id=kb_id,
            document_id=document_id,
            name=name,
            mime_type=mime_type,
            source=source,
            metadata=_decode(metadata),
        )
        with writer.member(member) as file:
            file.write(head)
            file.write(bytes(body))
        yield FileNote(path=f"{FOLDER}/{named}-{number:06d}{SUFFIX}", member=member)


def check_documents(first_pieces: Iterator[tuple[str, bytes]], workspace: str) -> None:
    """That each of these files, by its path and its first bytes, is a document of this workspace. Raises
    `BadArchive`."""
    for path, piece in first_pieces:
        if not path.startswith(f"{FOLDER}/") or not path.endswith(SUFFIX) or path.count("/") > 1:
            raise BadArchive(f"the archive has a file that belongs nowhere: {path[:80]!r}", hint="do not trust it")
        try:
            head = read_head(piece[:INCOMING_HEAD_BYTES].partition(b"\n")[0])
        except InvalidRequest as error:
            raise BadArchive(f"{path} cannot be read: {error.message}", hint="export it again") from error
        if head.workspace != workspace:
            raise BadArchive(f"{path} belongs to another workspace", hint="do not trust the archive")


def _sqlite(data: Path, workspace: str | None) -> Iterator[tuple[Any, ...]]:
    path = data / _FILE
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)) as reader:
            known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
            if reader.execute(known, (_TABLE,)).fetchone() is None:
                return
            asked = (_ROWS + _ORDER, ()) if workspace is None else (f"{_ROWS}{_OF_ONE}? {_ORDER}", (workspace,))
            yield from reader.execute(*asked)
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{_FILE} cannot be read: {error}", hint="look at the disk it is on") from error


def _postgres(database: str, workspace: str | None) -> Iterator[tuple[Any, ...]]:
    import psycopg  # noqa: PLC0415 -- an extra, and only a store that is PostgreSQL needs it

    try:
        with psycopg.connect(database, application_name="bollard backup") as connection:
            ((there,),) = connection.execute(f"SELECT to_regclass('{_TABLE}')::text".encode()).fetchall()
            if there is None:
                return
            with connection.cursor(name="documents") as cursor:
                cursor.itersize = 1  # each may be large
                asked = _ROWS + _ORDER if workspace is None else f"{_ROWS}{_OF_ONE}%s {_ORDER}"
                cursor.execute(asked.encode(), None if workspace is None else (workspace,))
                yield from cast("Iterator[tuple[Any, ...]]", cursor)
    except psycopg.Error as error:
        raise StorageUnavailable(f"PostgreSQL cannot be used: {error}", hint="is the server up?") from error

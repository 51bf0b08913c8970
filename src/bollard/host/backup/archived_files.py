"""The files of a data directory in an archive, except the database and the blobs: keys, plugins, skills, documents."""

import os
import re
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any, Final, cast

import msgspec

from bollard.host.archive.manifest import FileNote
from bollard.host.archive.writer import ArchiveWriter
from bollard.host.errors import BadArchive, InvalidRequest, StorageUnavailable, caused_by
from bollard.host.knowledge.incoming import FOLDER, SUFFIX, head_of, read_head
from bollard.host.knowledge.limits import INCOMING_HEAD_BYTES
from bollard.host.limits import ARCHIVE_FILES, ARCHIVE_KEY_BYTES
from bollard.host.store.kept_key import key_unusable
from bollard.trust import KeyFileError, make_folder, sync_folder
from bollard.trust.keys import SigningKey, load_or_make_signing_key
from bollard.wire.knowledge_frames import TABLES_FOLDER

HEADS_KEY: Final = "heads.ed25519"
KEPT_FOLDERS: Final = ("plugins", "skills", "knowledge")
"""Folders whose files a backup includes."""
_NEVER_COPIED: Final = frozenset({"cursors.secret"})
"""A restored store gets a new one, so that cursors from after the backup are invalid."""
_KEY_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_PUBLIC: Final = ".pub"


def key_files(data: Path) -> list[Path]:
    """The key files of a backup with keys."""
    folder = data / "keys"
    if not folder.is_dir():
        return []
    return [
        path
        for path in sorted(folder.iterdir())
        if path.is_file()
        and not path.is_symlink()
        and _KEY_NAME.fullmatch(path.name)
        and path.name not in _NEVER_COPIED
        and path.suffix not in (_PUBLIC, ".new")
    ]


def head_key(data: Path) -> SigningKey:
    """The key that signs heads and archives of a data directory, created on first use. Raises
    `StorageUnavailable`."""
    try:
        return load_or_make_signing_key(data / "keys" / HEADS_KEY)
    except KeyFileError as error:
        raise key_unusable(error) from error


def public_keys(data: Path) -> dict[str, str]:
    """The public halves of the keys that signed heads here, by id: this host's, and those of before a restore."""
    found: dict[str, str] = {}
    folder = data / "keys"
    if (folder / HEADS_KEY).is_file():
        key = head_key(data).verify_key
        found[key.key_id] = key.public.hex()
    for path in sorted(folder.glob(f"heads.*{_PUBLIC}")):
        found.setdefault(path.name.split(".")[1], path.read_text(encoding="ascii").strip())
    return found


def write_public_keys(data: Path, keys: dict[str, str]) -> None:
    """Store public keys, so that signatures of earlier keys can still be verified."""
    for key_id, public in keys.items():
        if re.fullmatch(r"[0-9a-f]{16}", key_id) is None or re.fullmatch(r"[0-9a-f]{64}", public) is None:
            raise BadArchive(
                "the archive contains an invalid public key",
                reason="public_key_invalid",
                hint="use another copy of the archive",
            )
        write_file(data / "keys" / f"heads.{key_id}{_PUBLIC}", [public.encode() + b"\n"])


def read_small(path: Path) -> bytes:
    """Read a key file. Raises `StorageUnavailable`."""
    try:
        with path.open("rb") as file:
            content = file.read(ARCHIVE_KEY_BYTES + 1)
    except OSError as error:
        raise StorageUnavailable(
            f"{path.name} cannot be read: {error.strerror}",
            reason="key_file_unreadable",
            hint="run as the user who owns the data directory",
            file=path.name,
            **caused_by(error),
        ) from error
    if len(content) > ARCHIVE_KEY_BYTES:
        raise StorageUnavailable(
            f"{path.name} is not a key file",
            reason="not_a_key_file",
            hint="move it out of the keys folder",
            file=path.name,
        )
    return content


def files_below(data: Path, folders: Iterable[str]) -> Iterator[tuple[Path, bool]]:
    """Each regular file of these folders, and whether it is executable. Links are skipped."""
    count = 0
    for folder in folders:
        for root, names, files in os.walk(data / folder, followlinks=False):
            names[:] = sorted(name for name in names if not name.startswith("."))  # unfinished files
            for name in sorted(files):
                path = Path(root, name)
                if path.is_symlink() or not path.is_file():
                    continue
                count += 1
                if count > ARCHIVE_FILES:
                    raise StorageUnavailable(
                        f"the data directory has more than {ARCHIVE_FILES} files",
                        reason="too_many_files",
                        hint="find out what creates them, and remove those that are not needed",
                        limit=ARCHIVE_FILES,
                    )
                yield path, bool(path.stat().st_mode & 0o100)


def place_of(data: Path, path: str) -> Path:
    """The path of a file of an archive. Raises `BadArchive` for a path outside of the known folders."""
    parts = PurePosixPath(path).parts
    plain = all(part not in ("", ".", "..") and "\0" not in part for part in parts)
    if not parts or PurePosixPath(path).is_absolute() or parts[0] not in KEPT_FOLDERS or len(parts) < 2 or not plain:
        raise unexpected_file(path)
    return data.joinpath(*parts)


def unexpected_file(path: str) -> BadArchive:
    return BadArchive(
        f"the archive contains an unexpected file: {path[:80]!r}",
        reason="unexpected_file",
        hint="do not trust the archive",
        file=path[:80],
    )


def write_file(path: Path, pieces: Iterable[bytes], *, executable: bool = False) -> None:
    """Write a new file durably, readable by its owner only."""
    make_folder(path.parent, 0o700)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o700 if executable else 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(descriptor)
    sync_folder(path.parent)


def replace_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Replace a file atomically and durably."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    write_file(unfinished, pieces)
    unfinished.replace(path)
    sync_folder(path.parent)


# --- documents of knowledge bases ---
#
# Chunks, vectors and indices are left out: a host that finds document files in its data directory indexes them again.
# The tables of the knowledge process are read as one snapshot, and never written.

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
    prefix = secrets.token_hex(4)  # files of an earlier import may still be there
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
        yield FileNote(path=f"{FOLDER}/{prefix}-{number:06d}{SUFFIX}", member=member)


def check_documents(first_pieces: Iterator[tuple[str, bytes]], workspace: str) -> None:
    """Check by path and first bytes that each file is a document of this workspace. Raises `BadArchive`."""
    for path, piece in first_pieces:
        if not path.startswith(f"{FOLDER}/") or not path.endswith(SUFFIX) or path.count("/") > 1:
            raise unexpected_file(path)
        try:
            head = read_head(piece[:INCOMING_HEAD_BYTES].partition(b"\n")[0])
        except InvalidRequest as error:
            raise BadArchive(
                f"{path} cannot be read: {error.message}",
                reason="document_unreadable",
                hint="export the workspace again",
                file=path,
                **caused_by(error),
            ) from error
        if head.workspace != workspace:
            raise BadArchive(
                f"{path} belongs to another workspace",
                reason="document_foreign",
                hint="do not trust the archive",
                file=path,
            )


def _sqlite(data: Path, workspace: str | None) -> Iterator[tuple[Any, ...]]:
    path = data / TABLES_FOLDER / _FILE
    if not path.exists():
        path = data / _FILE  # an earlier version made it, and no host has started since
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)) as reader:
            known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
            if reader.execute(known, (_TABLE,)).fetchone() is None:
                return
            query = (_ROWS + _ORDER, ()) if workspace is None else (f"{_ROWS}{_OF_ONE}? {_ORDER}", (workspace,))
            yield from reader.execute(*query)
    except sqlite3.Error as error:
        raise StorageUnavailable(
            f"{_FILE} cannot be read: {error}",
            reason="documents_unreadable",
            hint="check its disk",
            file=_FILE,
            **caused_by(error),
        ) from error


def _postgres(database: str, workspace: str | None) -> Iterator[tuple[Any, ...]]:
    import psycopg  # noqa: PLC0415 -- an extra, needed for a PostgreSQL store only

    from bollard.host.store.postgres import postgres_unusable  # noqa: PLC0415 -- imports the extra

    try:
        with psycopg.connect(database, application_name="bollard backup") as connection:
            ((there,),) = connection.execute(f"SELECT to_regclass('{_TABLE}')::text".encode()).fetchall()
            if there is None:
                return
            with connection.cursor(name="documents") as cursor:
                cursor.itersize = 1  # each may be large
                query = _ROWS + _ORDER if workspace is None else f"{_ROWS}{_OF_ONE}%s {_ORDER}"
                cursor.execute(query.encode(), None if workspace is None else (workspace,))
                yield from cast("Iterator[tuple[Any, ...]]", cursor)
    except psycopg.Error as error:
        raise postgres_unusable(error) from error

"""Compares a store with its log: every projection with the result of projecting the records, every content with its
digest, and every row beside the log with its HMAC. Reads one snapshot, with or without a running host (ADR 0088).

The journal's own projector writes the records into a scratch file. Then both databases are read table by table in the
order of their keys, so memory does not grow with the log.
"""

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from bollard.host.archive.manifest import Table
from bollard.host.backup.archive_verification import Progress, no_progress
from bollard.host.backup.backup import BackupSource, named_contents
from bollard.host.backup.content_references import ContentReferences
from bollard.host.backup.sqlite_tables import SqliteSnapshot
from bollard.host.backup.tables import Row, Snapshot
from bollard.host.errors import HostError, NotFound
from bollard.host.log.projection import Projector
from bollard.host.log.rebuild import project
from bollard.host.store import statements
from bollard.host.store.blobs import BlobStore
from bollard.host.store.database import build_rows, kept_and_mac
from bollard.host.store.kept_key import KEPT_KEY, KeptKey
from bollard.host.store.rows import KeptRow, RecordRow
from bollard.host.store.sqlite import SqliteDatabase
from bollard.host.store.store import Store

MISMATCHES_TOLD: Final = 100
"""Mismatches after which no more are collected."""
RECORDS_AT_ONCE: Final = 20_000
"""Records of one commit to the scratch file."""
TOLD_EVERY: Final = 1000
_PIECE_BYTES: Final = 1 << 20
_Values = tuple[object, ...]
_NOT_IN_THE_LOG: Final = frozenset({"owner", "lease_until_ms"})
_SWEPT: Final = frozenset({"artifacts", "state"})
"""Projections whose rows are deleted when they expire. An expired approval stays."""
MismatchKind = Literal["edited", "missing", "unknown", "content_edited", "content_missing", "kept"]
"""A row differs from the log, is missing, or has no record; a content differs or is missing; the HMAC of a row beside
the log is wrong."""


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """A row or a content that differs from the log."""

    kind: MismatchKind
    table: str
    key: str
    """The values of the row's key; of a content its digest."""
    columns: tuple[str, ...] = ()
    """The differing columns of an edited row."""


class StoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """The compared counts, and the mismatches."""

    rows: int
    """Rows of projections."""
    contents: int | None
    """Contents that rows name; `None` without a data directory."""
    kept: int | None
    """Rows beside the log; `None` without their key."""
    mismatches: tuple[Mismatch, ...]


def check_projections(
    snapshot: Snapshot, source: BackupSource, *, now_ms: int, progress: Progress = no_progress
) -> StoreReport:
    """Compare the store with its log. The log must have been verified, because projections of a broken log prove
    nothing. Needs space for the projections in the temporary folder. Raises `StorageUnavailable`, `StorageFull`."""
    check = _Check(snapshot, now_ms, progress)
    with tempfile.TemporaryDirectory(prefix="bollard-verify-") as folder:
        path = Path(folder) / "scratch.db"
        check.project(path)
        scratch = SqliteSnapshot(path)
        try:
            check.compare(scratch)
        finally:
            scratch.close()
    has_data = (source.data / "keys").is_dir()
    return StoreReport(
        contents=check.contents(source) if has_data else None,
        kept=check.kept(source.data / "keys") if has_data else None,
        rows=check.rows,
        mismatches=tuple(check.mismatches),
    )


class _Check:
    """One comparison."""

    def __init__(self, snapshot: Snapshot, now_ms: int, progress: Progress) -> None:
        self._snapshot = snapshot
        self._now_ms = now_ms
        self._progress = progress
        self._tables = {table.name: table for table in snapshot.tables()}
        self._references = ContentReferences()
        self.rows = 0
        self.mismatches: list[Mismatch] = []

    # --- projections ---

    def project(self, path: Path) -> None:
        """Project the whole log into a scratch file."""
        records, projector, done = self._tables["records"], Projector(), 0
        total = self._snapshot.count(records)
        places = [records.index(name) for name in RecordRow.__struct_fields__]
        rows = (tuple(row[place] for place in places) for row in self._snapshot.stored(records))
        store = Store(SqliteDatabase(path))
        store.open()
        try:
            while page := build_rows(RecordRow, list(islice(rows, RECORDS_AT_ONCE))):
                with store.write() as transaction:
                    project(projector, page, transaction)
                self._references.feed(page)
                done += len(page)
                self._progress("project_rows", done, total)
        finally:
            store.close()

    def compare(self, scratch: SqliteSnapshot) -> None:
        made = {table.name: table for table in scratch.tables()}
        chosen = [name for name in statements.PROJECTIONS if name in self._tables]  # an older schema has fewer
        total = sum(self._snapshot.count(self._tables[name]) for name in chosen)
        for name in chosen:
            try:
                self._compare_table(scratch, made[name], total)
            except TypeError:  # a key of an unexpected type cannot be ordered
                self._add(Mismatch(kind="edited", table=name, key="?"))

    def _compare_table(self, scratch: SqliteSnapshot, made: Table, total: int) -> None:
        found, of_key = self._tables[made.name], scratch.key_of(made)
        names = [
            column.name for column in made.columns if found.has(column.name) and column.name not in _NOT_IN_THE_LOG
        ]
        theirs = _keyed(self._snapshot.rows(found), found, of_key, names, self._now_ms)
        ours = _keyed(scratch.rows(made), made, of_key, names, self._now_ms)
        tagged = merge(((*row, "theirs") for row in theirs), ((*row, "ours") for row in ours), key=itemgetter(0))
        for key, same in groupby(tagged, itemgetter(0)):
            sides = {side: values for _, values, side in same}
            if (mismatch := _mismatch(made.name, key, names, sides.get("theirs"), sides.get("ours"))) is not None:
                self._add(mismatch)
            self.rows += 1
            if not self.rows % TOLD_EVERY:
                self._progress("compare_rows", min(self.rows, total), total)

    # --- data outside of the log ---

    def contents(self, source: BackupSource) -> int:
        """Hash every content that the log names."""
        blobs, lost = BlobStore(source.data / "blobs"), set[str]()
        named = [(sha256, partial(blobs.stream, sha256)) for sha256 in sorted(self._references.blobs(self._now_ms))]
        files = sorted(self._references.skill_files())
        named += [(file.sha256, partial(_pieces, source.data / file.path)) for file in files]
        for count, (sha256, pieces) in enumerate(named, start=1):
            digest = hashlib.sha256()
            try:
                for piece in pieces():
                    digest.update(piece)
            except (NotFound, FileNotFoundError):
                lost.add(sha256)
            else:
                if digest.hexdigest() != sha256:
                    self._add(Mismatch(kind="content_edited", table="blobs", key=sha256))
            self._progress("verify_blobs", count, len(named))
        if lost:  # a running host may have swept some since
            for sha256 in sorted(lost & named_contents(source, self._now_ms)):
                self._add(Mismatch(kind="content_missing", table="blobs", key=sha256))
        return len(named)

    def kept(self, keys: Path) -> int | None:
        """Check the HMAC of every row beside the log; `None` if the schema has no HMACs or the key cannot be read."""
        table = self._tables.get("kept")
        if table is None or not table.has("mac"):
            return None
        key = KeptKey(keys)
        try:
            known = key.find()
        except HostError:
            return None
        places = [table.index(name) for name in (*KeptRow.__struct_fields__, "mac")]
        count = 0
        for values in self._snapshot.rows(table):
            row, mac = kept_and_mac(tuple(values[place] for place in places))
            if not known or not key.made(row, mac):
                row_key = _key_text((row.kind, row.workspace, row.id))
                self._add(Mismatch(kind="kept", table="kept", key=row_key, columns=() if known else (KEPT_KEY,)))
            count += 1
        return count

    def _add(self, mismatch: Mismatch) -> None:
        if len(self.mismatches) < MISMATCHES_TOLD:
            self.mismatches.append(mismatch)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _keyed(
    rows: Iterator[Row], table: Table, key: Sequence[str], names: Sequence[str], now_ms: int
) -> Iterator[tuple[tuple[Any, ...], _Values]]:
    """The key and the compared values of each row that has not expired."""
    of_key, of_row = [table.index(name) for name in key], [table.index(name) for name in names]
    for row in _alive(rows, table, now_ms):
        yield tuple(row[place] for place in of_key), tuple(row[place] for place in of_row)


def _alive(rows: Iterator[Row], table: Table, now_ms: int) -> Iterator[Row]:
    """Expired rows may be present or swept."""
    if table.name not in _SWEPT:
        return rows
    place = table.index("expires_ms")
    return (row for row in rows if not isinstance(ends := row[place], int) or ends > now_ms)


def _mismatch(
    table: str, key: tuple[object, ...], names: Sequence[str], there: _Values | None, wanted: _Values | None
) -> Mismatch | None:
    """The differences between an existing row and the row that the log produces."""
    if there is None:
        return Mismatch(kind="missing", table=table, key=_key_text(key))
    if wanted is None:
        return Mismatch(kind="unknown", table=table, key=_key_text(key))
    if there == wanted:
        return None
    changed = [name for name, one, other in zip(names, there, wanted, strict=True) if _plain(one) != _plain(other)]
    return Mismatch(kind="edited", table=table, key=_key_text(key), columns=tuple(changed)) if changed else None


def _plain(value: object) -> object:
    """PostgreSQL's text cannot hold U+0000, and its store replaces it."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def _key_text(key: tuple[object, ...]) -> str:
    return " ".join(map(str, key))

"""Archived segments of chains: compressed files, each with the signed head that ends it, that verify without the
store."""

import asyncio
import gzip
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec
import structlog
from msgspec.structs import replace

from bollard.host.audit.heads import HeadLine
from bollard.host.clock import Clock
from bollard.host.limits import ARCHIVE_SEGMENT_RECORDS, REPLAY_PAGE
from bollard.host.log.chain import chained
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.store.rows import HeadRow, RecordRow
from bollard.host.store.store import Store
from bollard.trust import Fault, genesis, make_folder, sync_folder, verify_chain

_NAME: Final = re.compile(r"(\d{12})-(\d{12})\.jsonl\.gz")
_LEVEL: Final = 6
_LINE_BYTES: Final = 64 << 20
"""The longest line of a segment; records are far shorter."""
_encode: Final = msgspec.json.Encoder().encode


class BadSegment(Exception):
    """A segment is unreadable or was changed."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position
        self.problem = problem


class SegmentHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a segment."""

    kind: str = "bollard-segment-1"
    workspace: str
    chain: str
    first: int
    last: int
    after_hash: str
    """The hash before the first record."""
    head: HeadLine


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment file, identified by its name."""

    path: Path
    first: int
    last: int


_decode_header: Final = msgspec.json.Decoder(SegmentHeader).decode
_decode_record: Final = msgspec.json.Decoder(RecordRow).decode


def _folder(archive: Path, workspace: str, chain: str) -> Path:
    return archive / _safe(workspace) / _safe(chain)


def _safe(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E")


def _segments_in(folder: Path) -> list[Segment]:
    return [
        Segment(path=path, first=int(name[1]), last=int(name[2]))
        for path in sorted(folder.iterdir())
        if (name := _NAME.fullmatch(path.name)) is not None
    ]


def archived_up_to(archive: Path, workspace: str, chain: str) -> int:
    """The last archived position of a chain; 0 if there is none."""
    folder = _folder(archive, workspace, chain)
    return max((each.last for each in _segments_in(folder)), default=0) if folder.is_dir() else 0


def find_segments(archive: Path) -> Iterator[list[Segment]]:
    """The segments of each chain, in order. Other files are skipped."""
    if not archive.is_dir():
        return
    for workspace in sorted(path for path in archive.iterdir() if path.is_dir()):
        for chain in sorted(path for path in workspace.iterdir() if path.is_dir()):
            if found := _segments_in(chain):
                yield found


def write_segment(archive: Path, header: SegmentHeader, rows: Iterable[RecordRow]) -> tuple[Path, str]:
    """Write a segment; it gets its name only after it is complete, durable and verified. Returns path and digest.
    Raises `BadSegment` and `OSError`."""
    folder = _folder(archive, header.workspace, header.chain)
    make_folder(folder)
    path = folder / f"{header.first:012}-{header.last:012}.jsonl.gz"
    unfinished = path.with_name(f"{path.name}.new")
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_LEVEL, mtime=0, filename="") as packed:
                packed.write(_encode(header) + b"\n")
                for row in rows:
                    packed.write(_encode(row) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        read_segment(unfinished)
        with unfinished.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)
    sync_folder(folder)
    return path, digest


def read_segment(path: Path) -> SegmentHeader:
    """Read and verify a segment. The caller checks the key of its head. Raises `BadSegment`."""
    position = 0
    try:
        with gzip.open(path, "rb") as file:
            header = _decode_header(file.readline(_LINE_BYTES))
            position = header.first
            report = verify_chain(
                header.workspace,
                header.chain,
                (chained(_decode_record(line)) for line in iter(lambda: file.readline(_LINE_BYTES), b"")),
                after_position=header.first - 1,
                after_hash=header.after_hash,
                heads={header.last: header.head.hash},
            )
    except (OSError, EOFError, ValueError, TypeError, msgspec.MsgspecError) as error:
        raise BadSegment(position, f"it cannot be read: {error}") from error
    fault = report.fault or _unfit(header, report.position)
    if fault is not None:
        raise BadSegment(fault.position, fault.detail)
    return header


def _unfit(header: SegmentHeader, ended: int) -> Fault | None:
    head, detail = header.head, ""
    if (head.workspace, head.chain, head.position) != (header.workspace, header.chain, header.last):
        detail = "its signed head is of another place"
    elif ended != header.last:
        detail = f"it goes to {ended}, and its head to {header.last}"
    elif header.first == 1 and header.after_hash != genesis(header.workspace, header.chain):
        detail = "it does not begin where its chain begins"
    return Fault(kind="edited", chain=header.chain, position=header.first, detail=detail) if detail else None


# --- reading and erasing records of segments ---


def segment_rows(archive: Path) -> Iterator[RecordRow]:
    """The records of all segments. Raises `BadSegment`."""
    for segments in find_segments(archive):
        for segment in segments:
            yield from _rows_of(segment.path)


def erase_from_segments(archive: Path, is_erased: Callable[[RecordRow], bool]) -> list["Archived"]:
    """Write the segments with such records again, without their data; returns them. Raises `BadSegment` and
    `OSError`."""
    written: list[Archived] = []
    for segments in find_segments(archive):
        for segment in segments:
            if any(is_erased(row) for row in _rows_of(segment.path)):
                rows = (replace(row, data=None) if is_erased(row) else row for row in _rows_of(segment.path))
                header = read_segment(segment.path)
                written.append(Archived.of(archive, header, *write_segment(archive, header, rows)))
    return written


def _rows_of(path: Path) -> Iterator[RecordRow]:
    try:
        with gzip.open(path, "rb") as file:
            file.readline(_LINE_BYTES)
            for line in iter(lambda: file.readline(_LINE_BYTES), b""):
                yield _decode_record(line)
    except (OSError, EOFError, ValueError, msgspec.MsgspecError) as error:
        raise BadSegment(0, f"{path.name} cannot be read: {error}") from error


# --- archiving, before retention drops data ---

_log = structlog.get_logger("bollard.host.audit")
_DAY_MS: Final = 24 * 3600 * 1000
_CHAINS: Final = 100_000
"""Chains per run of the archiver."""


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """A written segment."""

    workspace: str
    chain: str
    first: int
    last: int
    file: str
    sha256: str

    @classmethod
    def of(cls, archive: Path, header: SegmentHeader, path: Path, sha256: str) -> "Archived":
        return cls(
            workspace=header.workspace,
            chain=header.chain,
            first=header.first,
            last=header.last,
            file=path.relative_to(archive).as_posix(),
            sha256=sha256,
        )

    def record(self, now_ms: int) -> NewRecord:
        """`log.archived`. The newest record of a file has its digest."""
        fields = ("chain", "first", "last", "file", "sha256")
        data = encode_data({name: getattr(self, name) for name in fields})
        return NewRecord(workspace=self.workspace, type="log.archived", data=data, created_ms=now_ms)


class Archiver:
    """Archives old parts of the log, and writes a `log.archived` record with the digest of each segment."""

    def __init__(self, *, store: Store, journal: Journal, clock: Clock, folder: Path, days: float) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._folder = folder
        self._days = days

    async def run(self) -> list[Archived]:
        """Archive all records covered by a signed head that is old enough. Raises `HostError`; a failed write is logged
        and retried at the next run."""
        before_ms = self._clock.now_ms() - round(self._days * _DAY_MS)
        done: list[Archived] = []
        for head in await asyncio.to_thread(self._store.newest_heads, None, before_ms, _CHAINS):
            while (archived := await asyncio.to_thread(self._next, head)) is not None:
                await self._record(archived)
                done.append(archived)
        return done

    def _next(self, head: HeadRow) -> Archived | None:
        try:
            return archive_chain(self._store, self._folder, head)
        except (BadSegment, OSError) as error:
            hint = "run `bollard audit verify` to check the log, and check the disk of the archive"
            _log.error("the log was not archived", chain=head.chain, problem=str(error), hint=hint)
            return None

    async def _record(self, archived: Archived) -> None:
        record = archived.record(self._clock.now_ms())
        await self._journal.commit(Entry(records=[record], size=len(record.data)))


def archive_chain(store: Store, folder: Path, newest: HeadRow) -> Archived | None:
    """Write the next segment of a chain up to a head; `None` if all of it is archived. Blocks. Raises `BadSegment`,
    `OSError`."""
    workspace, chain = newest.workspace, newest.chain
    done = archived_up_to(folder, workspace, chain)
    if newest.position <= done:
        return None
    head = _end_of_segment(store, newest, done)
    before = store.chain(workspace, chain, done - 1, 1) if done else []
    header = SegmentHeader(
        workspace=workspace,
        chain=chain,
        first=done + 1,
        last=head.position,
        after_hash=before[0].hash if before else genesis(workspace, chain),
        head=HeadLine.of(head),
    )
    written = write_segment(folder, header, _records(store, workspace, chain, done, head.position))
    return Archived.of(folder, header, *written)


def _end_of_segment(store: Store, newest: HeadRow, done: int) -> HeadRow:
    """The head that ends the next segment: the last one within the size limit, otherwise the next one."""
    if newest.position - done <= ARCHIVE_SEGMENT_RECORDS:
        return newest
    heads = [head for head in store.heads(newest.workspace) if head.chain == newest.chain and head.position > done]
    fitting = [head for head in heads if head.position - done <= ARCHIVE_SEGMENT_RECORDS]
    return fitting[-1] if fitting else heads[0]


def _records(store: Store, workspace: str, chain: str, after: int, last: int) -> Iterator[RecordRow]:
    while after < last:
        rows = store.chain(workspace, chain, after, min(REPLAY_PAGE, last - after))
        if not rows:
            return
        yield from rows
        after = rows[-1].position

"""Verifies the log of a store where it lies, beside a host that runs or without one: records, signed heads, witnesses
and archived segments. Reads one moment, and writes nothing."""

import stat
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import msgspec

from bollard.host.archive.manifest import Table
from bollard.host.audit.heads import UnreadableHead, is_signed, read_heads_of
from bollard.host.audit.segments import BadSegment, Segment, SegmentHeader, find_segments, read_segment
from bollard.host.audit.verifying import RECORD_COLUMNS, LogReport, LogWalk, Problem
from bollard.host.backup.boundary import Snapshot
from bollard.host.backup.verifying import Progress, untold
from bollard.host.errors import InvalidRequest, StorageUnavailable
from bollard.host.store.row_reading import read_heads
from bollard.host.store.rows import HeadRow
from bollard.trust.keys import VerifyKey

__all__ = ["CheckedLog", "check_log"]

_TOLD_EVERY: Final = 10_000


class CheckedLog(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and what it was held against."""

    report: LogReport
    witnesses: int
    """Witnesses that were read."""
    segments: int
    """Archived segments that were read."""


def check_log(
    snapshot: Snapshot,
    keys: Mapping[str, VerifyKey],
    *,
    witnesses: Sequence[Path] = (),
    archive: Path | None = None,
    progress: Progress = untold,
) -> CheckedLog:
    """Raises `StorageUnavailable` and `InvalidRequest` for what cannot be read at all."""
    tables = {table.name: table for table in snapshot.tables()}
    if "records" not in tables:
        raise InvalidRequest("the database holds no log", hint="name the data directory or database of a host")
    walk, records = LogWalk(keys), tables["records"]
    for path in witnesses:
        _hear_witness(walk, path)
    segments = 0 if archive is None else _check_archive(walk, archive, keys)
    for head in _heads(snapshot, tables["heads"]):
        walk.add_head(head)
    total = snapshot.count(records)
    walk.feed(_told(_in_order(snapshot.stored(records), records), total, progress))
    return CheckedLog(report=walk.finish(), witnesses=len(witnesses), segments=segments)


def _heads(snapshot: Snapshot, table: Table) -> Iterator[HeadRow]:
    for row in snapshot.rows(table):
        yield from read_heads([tuple(row)])


def _in_order(rows: Iterator[tuple[Any, ...]], table: Table) -> Iterator[tuple[Any, ...]]:
    """With the columns as the walk wants them: those of a database may stand elsewhere."""
    places = [table.index(name) for name in RECORD_COLUMNS]
    return rows if places == list(range(len(table.columns))) else map(itemgetter(*places), rows)


def _told(rows: Iterator[tuple[Any, ...]], total: int, progress: Progress) -> Iterator[tuple[Any, ...]]:
    if progress is untold:
        return rows
    return _counted(rows, total, progress)


def _counted(rows: Iterator[tuple[Any, ...]], total: int, progress: Progress) -> Iterator[tuple[Any, ...]]:
    for count, row in enumerate(rows, start=1):
        if not count % _TOLD_EVERY:
            progress("verify_rows", count, total)
        yield row


def _hear_witness(walk: LogWalk, path: Path) -> None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InvalidRequest(f"{path} is no file", hint="name a file that holds what the witness was told")
        with path.open("rb") as file:
            for line in read_heads_of(file):
                walk.add_witnessed(line)
    except OSError as error:
        message = f"the witness {path} cannot be read: {error.strerror}"
        raise StorageUnavailable(message, hint="name it with --witness, or leave it out and know less") from error
    except UnreadableHead as error:
        detail = f"line {error.line} of {path}: {error.problem}"
        walk.add_problem(Problem(kind="witness", workspace="", chain="", position=error.line, detail=detail))


def _check_archive(walk: LogWalk, archive: Path, keys: Mapping[str, VerifyKey]) -> int:
    count = 0
    for segments in find_segments(archive):
        before: SegmentHeader | None = None
        for segment in segments:
            count += 1
            try:
                header = read_segment(segment.path)
                _check_place(segment, header, before, keys)
            except BadSegment as error:
                walk.add_problem(_of_archive(archive, segment, error))
                break
            walk.add_witnessed(header.head)
            before = header
    return count


def _check_place(
    segment: Segment, header: SegmentHeader, before: SegmentHeader | None, keys: Mapping[str, VerifyKey]
) -> None:
    """Whether a segment, which is whole, is the one that its name says and follows the one before."""
    after = (0, "") if before is None else (before.last, before.head.hash)
    if (segment.first, segment.last) != (header.first, header.last):
        raise BadSegment(segment.first, "it holds other records than its name says")
    if header.first != after[0] + 1:
        raise BadSegment(after[0] + 1, "the segment before it is missing")
    if before is not None and header.after_hash != after[1]:
        raise BadSegment(header.first, "it does not follow the segment before it")
    if not is_signed(header.head.row(), keys):
        raise BadSegment(header.last, f"its head is not signed by a key that is known ({header.head.key_id})")


def _of_archive(archive: Path, segment: Segment, error: BadSegment) -> Problem:
    workspace, chain = segment.path.relative_to(archive).parts[:2]
    detail = f"{segment.path.name}: {error.problem}"
    return Problem(kind="archive", workspace=workspace, chain=chain, position=error.position, detail=detail)

"""The verification of a store's log, with or without a running host: records, signed heads, witnesses and archived
segments. Reads one snapshot, and writes nothing."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import msgspec

from bollard.host.archive.manifest import Table
from bollard.host.audit.heads import UnreadableHead, is_signed, read_heads_of
from bollard.host.audit.segments import BadSegment, Segment, SegmentHeader, find_segments, read_segment
from bollard.host.audit.verification import RECORD_COLUMNS, LogReport, LogWalk, Problem
from bollard.host.audit.witness import WitnessPlace
from bollard.host.backup.archive_verification import Progress, no_progress
from bollard.host.backup.tables import Snapshot
from bollard.host.errors import ExplainedError, InvalidRequest, StorageUnavailable, caused_by
from bollard.host.limits import TAIL_RECORDS
from bollard.host.log.tail import chain_fault
from bollard.host.store.database import build_rows
from bollard.host.store.rows import HeadRow, RecordRow
from bollard.trust.chain import Fault
from bollard.trust.keys import VerifyKey

_TOLD_EVERY: Final = 10_000


class CheckedLog(msgspec.Struct, frozen=True, kw_only=True):
    """The report, and the sources it was checked against."""

    report: LogReport
    witnesses: int
    """Witnesses that were read."""
    segments: int
    """Archived segments that were read."""


class WitnessedHeads(msgspec.Struct, frozen=True):
    """The heads of witnesses. They are read before the log, because a running host sends only durable heads."""

    walk: LogWalk
    keys: Mapping[str, VerifyKey]
    witnesses: int = 0


def read_witnesses(keys: Mapping[str, VerifyKey], witnesses: Sequence[WitnessPlace] = ()) -> WitnessedHeads:
    """Read witnesses. `keys` are the trusted public keys, by id. Raises `StorageUnavailable`."""
    walk = LogWalk(keys)
    for witness in witnesses:
        _read_witness(walk, witness)
    return WitnessedHeads(walk, keys, len(witnesses))


def check_log(
    snapshot: Snapshot, witnessed: WitnessedHeads, *, archive: Path | None = None, progress: Progress = no_progress
) -> CheckedLog:
    """Verify the log of a snapshot taken after the witnesses were read. Raises `StorageUnavailable` and
    `InvalidRequest`."""
    tables = {table.name: table for table in snapshot.tables()}
    if "records" not in tables:
        raise InvalidRequest(
            "the database holds no log", reason="no_log", hint="name the data directory or database of a host"
        )
    walk, records = witnessed.walk, tables["records"]
    segments = 0 if archive is None else _check_archive(walk, archive, witnessed.keys)
    for head in _heads(snapshot, tables["heads"]):
        walk.add_head(head)
    total = snapshot.count(records)
    walk.feed(_told(_in_order(snapshot.stored(records), records), total, progress))
    return CheckedLog(report=walk.finish(), witnesses=witnessed.witnesses, segments=segments)


def _heads(snapshot: Snapshot, table: Table) -> Iterator[HeadRow]:
    for row in snapshot.rows(table):
        yield from build_rows(HeadRow, [tuple(row)])


def _in_order(rows: Iterator[tuple[Any, ...]], table: Table) -> Iterator[tuple[Any, ...]]:
    """Reorder the columns for the walk: those of a database may have another order."""
    places = [table.index(name) for name in RECORD_COLUMNS]
    return rows if places == list(range(len(table.columns))) else map(itemgetter(*places), rows)


def _told(rows: Iterator[tuple[Any, ...]], total: int, progress: Progress) -> Iterator[tuple[Any, ...]]:
    if progress is no_progress:
        return rows
    return _counted(rows, total, progress)


def _counted(rows: Iterator[tuple[Any, ...]], total: int, progress: Progress) -> Iterator[tuple[Any, ...]]:
    for count, row in enumerate(rows, start=1):
        if not count % _TOLD_EVERY:
            progress("verify_rows", count, total)
        yield row


def _read_witness(walk: LogWalk, witness: WitnessPlace) -> None:
    try:
        for line in read_heads_of(witness.lines()):
            walk.add_witnessed(line)
    except OSError as error:
        raise StorageUnavailable(
            f"the witness {witness} cannot be read: {error.strerror or error}",
            reason="witness_unreadable",
            hint="name it with --witness",
            witness=str(witness),
            **caused_by(error),
        ) from error
    except UnreadableHead as error:
        detail = f"line {error.line} of {witness}: {error.why}"
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
            walk.add_archived(header.head)
            before = header
    return count


def _check_place(
    segment: Segment, header: SegmentHeader, before: SegmentHeader | None, keys: Mapping[str, VerifyKey]
) -> None:
    """Whether a complete segment matches its name and follows the one before."""
    after = (0, "") if before is None else (before.last, before.head.hash)
    if (segment.first, segment.last) != (header.first, header.last):
        raise BadSegment(segment.first, "its records do not match its name")
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


# --- the end of a log only ---


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The newest records of the newest chain."""

    records: int
    newest_ms: int | None
    """The time of the newest record, if any."""
    fault: ExplainedError | None
    """The first fault."""


def look_at_tail(snapshot: Snapshot, keys: dict[str, str]) -> Tail:
    """Check the newest records. `keys` are public keys by id, in hex, for the signatures of heads."""
    tables = {table.name: table for table in snapshot.tables()}
    rows = build_rows(RecordRow, [tuple(row) for row in snapshot.newest(tables["records"], TAIL_RECORDS)])
    if not rows:
        return Tail(records=0, newest_ms=None, fault=None)
    last = rows[-1]
    chain = [row for row in rows if (row.workspace, row.chain) == (last.workspace, last.chain)]
    heads = [
        head
        for head in build_rows(HeadRow, [tuple(row) for row in snapshot.rows(tables["heads"], last.workspace)])
        if head.chain == last.chain and chain[0].position <= head.position
    ]
    newest_ms = max(row.created_ms for row in rows)
    try:
        found = chain_fault(chain, heads, {name: VerifyKey(bytes.fromhex(key)) for name, key in keys.items()})
        fault = None if found is None else _tail_fault(last.chain, found)
    except (TypeError, ValueError) as error:  # a value of another type than any host writes
        message = f"a row of chain {last.chain} cannot be read: {error}"
        fault = ExplainedError(message, "log.row", chain=last.chain, inner=caused_by(error))
    return Tail(records=len(chain), newest_ms=newest_ms, fault=fault)


def _tail_fault(chain: str, found: Fault) -> ExplainedError:
    inner = {"problem": found.detail, "problem_type": f"log.{found.kind}", "position": found.position}
    message = f"record {found.position} of chain {chain}: {found.detail}"
    return ExplainedError(message, "log.at", chain=chain, position=found.position, inner=inner)

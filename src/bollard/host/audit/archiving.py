"""Puts what is old enough into an archive, chain by chain, before retention drops any of it. A chore, now and then."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import structlog

from bollard.host.audit.heads import HeadLine
from bollard.host.audit.segments import BadSegment, SegmentHeader, archived_up_to, write_segment
from bollard.host.clock import Clock
from bollard.host.limits import ARCHIVE_SEGMENT_RECORDS, REPLAY_PAGE
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.store.boundary import Store
from bollard.host.store.rows import HeadRow, RecordRow
from bollard.trust import genesis

__all__ = ["Archived", "Archiver", "archive_chain"]

_log = structlog.get_logger("bollard.host.audit")
_DAY_MS: Final = 24 * 3600 * 1000
_CHAINS: Final = 100_000
"""Chains that are looked at in one go."""


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """One segment that was written."""

    workspace: str
    chain: str
    first: int
    last: int
    file: str
    sha256: str


class Archiver:
    """Leaves a `log.archived` record for each segment, with its digest."""

    def __init__(self, *, store: Store, journal: Journal, clock: Clock, folder: Path, days: float) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._folder = folder
        self._days = days

    async def run(self) -> list[Archived]:
        """What a signed head of so many days ago covers. Raises `HostError`; an archive that cannot be written is
        logged, and tried again."""
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
            hint = "`bollard audit verify` names what is wrong with the log; look at the disk of the archive"
            _log.error("the log was not archived", chain=head.chain, problem=str(error), hint=hint)
            return None

    async def _record(self, archived: Archived) -> None:
        data = encode_data(
            {
                "chain": archived.chain,
                "first": archived.first,
                "last": archived.last,
                "file": archived.file,
                "sha256": archived.sha256,
            }
        )
        now_ms = self._clock.now_ms()
        record = NewRecord(workspace=archived.workspace, type="log.archived", data=data, created_ms=now_ms)
        await self._journal.commit(Entry(records=[record], size=len(data)))


def archive_chain(store: Store, folder: Path, newest: HeadRow) -> Archived | None:
    """The next segment of a chain up to a head; `None` where all of it is archived. Blocks. Raises `BadSegment`,
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
    path, sha256 = write_segment(folder, header, _records(store, workspace, chain, done, head.position))
    return Archived(
        workspace=workspace,
        chain=chain,
        first=header.first,
        last=header.last,
        file=path.relative_to(folder).as_posix(),
        sha256=sha256,
    )


def _end_of_segment(store: Store, newest: HeadRow, done: int) -> HeadRow:
    """A segment ends with a head: the last one that keeps it in its size, or the next one at all."""
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

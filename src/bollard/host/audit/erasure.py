"""The erasure of a person or of a conversation: its records keep their headers and digests and lose their data.

One reading of the log finds the records (`survey.py`). State values and artifacts get delete records first. Then the
data goes in small commits, newest record first, so that an interrupted erasure finds the rest when it is repeated. Each
commit also drops the projections of its records, and its own record counts them by type, so that the log still
verifies. Archived segments are written again without the data, and `log.archived` has their new digests.
"""

import asyncio
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec

from bollard.host.audit.segments import erase_from_segments, find_segments, segment_rows
from bollard.host.audit.selection import ROUNDS, Selection
from bollard.host.audit.survey import RecordBatch, Survey
from bollard.host.clock import Clock
from bollard.host.errors import Conflict
from bollard.host.limits import REPLAY_PAGE
from bollard.host.log.entries import Chore, CommitListener, CommitResult, Entry
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.log.removal import StatePurger, WriterQuery, remove_artifact
from bollard.host.store.rows import RecordRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

_STEP: Final = 500
"""Records of one commit."""
ErasureKind = Literal["person.erased", "conversation.deleted"]


class Commits(Protocol):
    """A journal, or the writer of a store that no host uses."""

    async def commit(self, entry: Entry) -> CommitResult: ...
    async def commit_through(self, entry: Entry, then: CommitListener | None = None) -> CommitResult: ...


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an erasure."""

    records: dict[str, int]
    """Records that lost their data, by type."""
    runs: int
    state: int
    artifacts: int
    segments: int
    """Archived segments that were written again."""


class Eraser:
    """Erases selections of the log of one store."""

    def __init__(self, store: Store, journal: Commits, clock: Clock, archive: Path | None = None) -> None:
        """`archive` is the folder of archived segments."""
        self._store = store
        self._journal = journal
        self._clock = clock
        self._archive = archive

    async def survey(self, selection: Selection) -> Survey:
        """Find a selection, also in archived segments whose data the store has dropped."""
        return await asyncio.to_thread(self._survey, selection)

    async def check(self, survey: Survey) -> None:
        """Read on to the end of the log. Raises `Conflict` while some work of the selection is unfinished."""
        await asyncio.to_thread(self._read_on, survey)
        await asyncio.to_thread(self._refuse_unfinished, survey.selection)

    async def erase(self, survey: Survey, kind: ErasureKind, details: JsonObject, *, by: str) -> Erased:
        """Erase a selection. Raises `Conflict` while some of its work is unfinished; then nothing is erased."""
        await self.check(survey)
        selection = survey.selection
        purger, workspace = StatePurger(self._store, self._journal, self._clock), selection.workspace
        state = 0
        if selection.runs:
            query = WriterQuery(run_ids=frozenset(selection.runs))
            state = (await purger.purge(workspace, query, by=by)).deleted
        artifacts = 0
        for artifact_id in [*survey.artifacts]:
            if await asyncio.to_thread(self._store.artifact, workspace, artifact_id) is not None:
                await remove_artifact(self._journal, workspace, artifact_id, by=by, now_ms=self._clock.now_ms())
                artifacts += 1
        await asyncio.to_thread(self._read_on, survey)  # the deletions
        for batch in survey.batches(_STEP):
            await self._drop(workspace, kind, details, batch, [*survey.storage])
        return Erased(
            records=survey.counts,
            runs=len(selection.runs),
            state=state,
            artifacts=artifacts,
            segments=await self._erase_archived(selection),
        )

    async def _drop(
        self, workspace: str, kind: ErasureKind, details: JsonObject, batch: RecordBatch, storage: list[tuple[str, str]]
    ) -> None:
        data = encode_data({**details, "dropped": {**batch.types}})
        record = NewRecord(workspace=workspace, type=kind, data=data, created_ms=self._clock.now_ms())
        chore = Chore(
            kind="erase",
            limit=len(batch.ids),
            before_ms=0,
            ids=batch.ids,
            runs=batch.runs,
            storage=storage if batch.runs else [],
        )
        await self._journal.commit(Entry(chore=chore, records=[record], size=len(data)))

    async def _erase_archived(self, selection: Selection) -> int:
        """Write the segments of the selection again, each with a `log.archived` record of its new digest."""
        if self._archive is None:
            return 0
        written = await asyncio.to_thread(erase_from_segments, self._archive, selection.has)
        for each in written:
            record = each.record(self._clock.now_ms())
            await self._journal.commit(Entry(records=[record], size=len(record.data)))
        return len(written)

    # --- reading: all of these block ---

    def _survey(self, selection: Selection) -> Survey:
        if self._archive is not None and any(find_segments(self._archive)):
            self._learn(selection, self._archive)
        survey = Survey(selection, self._store.run)
        self._read_on(survey)
        return survey

    def _learn(self, selection: Selection, archive: Path) -> None:
        """Retention drops the data of an event and of its run at different times, so each may be in the store or in a
        segment. Readings alternate until nothing is new."""
        for _ in range(ROUNDS):
            before = selection.size
            for row in chain(segment_rows(archive), self._rows()):
                selection.learn(row)
            if selection.size == before:
                return

    def _read_on(self, survey: Survey) -> None:
        for row in self._rows(survey.through):
            survey.add(row)

    def _rows(self, after: int = 0) -> Iterator[RecordRow]:
        while rows := self._store.records(after, REPLAY_PAGE):
            yield from rows
            after = rows[-1].id

    def records(self, selection: Selection) -> Iterator[RecordRow]:
        """The records of a selection that was surveyed, oldest first. Blocks."""
        return (row for row in self._rows() if selection.has(row))

    def _refuse_unfinished(self, selection: Selection) -> None:
        runs = [run for each in sorted(selection.runs) if (run := self._store.run(each)) is not None]
        active = [run.run_id for run in runs if run.finished_ms is None]
        if active:
            raise Conflict(
                f"run {active[0]} has not ended",
                reason="erasure_unfinished",
                hint="cancel the active runs, then repeat the command",
                run_id=active[0],
                count=len(active),
            )
        after = 0
        while rows := self._store.outbox_open(after, REPLAY_PAGE):
            waiting = [row for row in rows if row.run_id in selection.runs or row.event_id in selection.events]
            if waiting:
                raise Conflict(
                    f"the delivery {waiting[0].delivery_id} has not ended",
                    reason="erasure_undelivered",
                    hint="repeat the command when `bollard channels deliveries` shows its outcome",
                    delivery=waiting[0].delivery_id,
                )
            after = rows[-1].record_id

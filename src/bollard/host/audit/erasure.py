"""The erasure of a person or of a conversation: its records keep their headers and digests and lose their data.

State values and artifacts get delete records first. Then the data goes in small commits, newest record first, so that
an interrupted erasure finds the rest when it is repeated. Each commit also drops the projections of its records, and
its own record counts them by type, so that the log still verifies. Archived segments are written again without the
data.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec

from bollard.host.audit.segments import erase_from_segments, segment_rows
from bollard.host.audit.selection import ROUNDS, Selection
from bollard.host.clock import Clock
from bollard.host.errors import Conflict
from bollard.host.limits import REPLAY_PAGE
from bollard.host.log.entries import Chore, CommitListener, CommitResult, Entry
from bollard.host.log.projection import storage_place
from bollard.host.log.records import NewRecord, RunFacts, encode_data
from bollard.host.log.removal import StatePurger, WriterQuery, remove_artifact
from bollard.host.store.rows import RecordRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

_STEP: Final = 500
"""Records of one commit."""
_facts: Final = msgspec.json.Decoder(RunFacts).decode
_decode: Final = msgspec.json.Decoder().decode
ErasureKind = Literal["person.erased", "conversation.deleted"]


class Commits(Protocol):
    """A journal, or the writer of a store that no host uses."""

    async def commit(self, entry: Entry) -> CommitResult: ...
    async def commit_through(self, entry: Entry, then: CommitListener | None = None) -> CommitResult: ...


class _Found(msgspec.Struct, frozen=True):
    """The header of one selected record."""

    id: int
    type: str
    run_id: str | None
    hash: str


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

    async def learn(self, selection: Selection) -> None:
        """Find the events and runs of a selection, also in archived segments whose data the store has dropped."""
        await asyncio.to_thread(self._learn, selection)

    async def check(self, selection: Selection) -> None:
        """Find the selection. Raises `Conflict` while some of its work is unfinished."""
        await self.learn(selection)
        await asyncio.to_thread(self._refuse_unfinished, selection)

    async def erase(self, selection: Selection, kind: ErasureKind, details: JsonObject, *, by: str) -> Erased:
        """Erase a selection. Raises `Conflict` while some of its work is unfinished; then nothing is erased."""
        await self.check(selection)
        purger, workspace = StatePurger(self._store, self._journal, self._clock), selection.workspace
        state = 0
        if selection.runs:
            query = WriterQuery(run_ids=frozenset(selection.runs))
            state = (await purger.purge(workspace, query, by=by)).deleted
        artifacts = await asyncio.to_thread(self._artifacts, selection)
        for artifact_id in artifacts:
            await remove_artifact(self._journal, workspace, artifact_id, by=by, now_ms=self._clock.now_ms())
        found = await asyncio.to_thread(lambda: [*self._found(selection)])
        storage = await asyncio.to_thread(self._storage, selection)
        for chunk in _chunks(found[::-1]):
            await self._drop(workspace, kind, details, chunk, storage)
        segments = 0
        if self._archive is not None:
            segments = await asyncio.to_thread(erase_from_segments, self._archive, selection.has)
        counts = Counter(each.type for each in found)
        return Erased(
            records=dict(counts), runs=len(selection.runs), state=state, artifacts=len(artifacts), segments=segments
        )

    async def _drop(
        self,
        workspace: str,
        kind: ErasureKind,
        details: JsonObject,
        chunk: list[_Found],
        storage: list[tuple[str, str]],
    ) -> None:
        dropped = Counter(each.type for each in chunk)
        runs = sorted({each.run_id for each in chunk if each.type == "run.created" and each.run_id is not None})
        data = encode_data({**details, "dropped": {**dropped}})
        record = NewRecord(workspace=workspace, type=kind, data=data, created_ms=self._clock.now_ms())
        chore = Chore(
            kind="erase",
            limit=len(chunk),
            before_ms=0,
            ids=[each.id for each in chunk],
            runs=runs,
            storage=storage if runs else [],
        )
        await self._journal.commit(Entry(chore=chore, records=[record], size=len(data)))

    # --- reading: all of these block ---

    def _learn(self, selection: Selection) -> None:
        for _ in range(ROUNDS):
            before = selection.size
            for row in segment_rows(self._archive) if self._archive is not None else ():
                selection.learn(row)
            for row in self._rows():
                selection.learn(row)
            if selection.size == before:
                return

    def _rows(self) -> Iterator[RecordRow]:
        after = 0
        while rows := self._store.records(after, REPLAY_PAGE):
            yield from rows
            after = rows[-1].id

    def _found(self, selection: Selection) -> Iterator[_Found]:
        for row in self._rows():
            if selection.has(row):
                yield _Found(row.id, row.type, row.run_id, row.hash)

    def records(self, selection: Selection) -> Iterator[RecordRow]:
        """The records of a selection that was learned, oldest first."""
        return (row for row in self._rows() if selection.has(row))

    def documents(self, selection: Selection) -> Iterator[tuple[str, str]]:
        """Knowledge base and id of the documents whose last version the person saved. Blocks."""
        last: dict[tuple[str, str], bool] = {}
        for row in self._rows():
            if row.type == "knowledge.changed" and row.workspace == selection.workspace and row.data is not None:
                data = _decode(row.data)
                saved = data.get("action") == "saved"
                last[str(data["kb_id"]), str(data["document_id"])] = saved and selection.has(row)
        return (place for place, is_selected in last.items() if is_selected)

    def _artifacts(self, selection: Selection) -> list[str]:
        """The artifacts of the selected runs that still exist."""
        made = (
            str(_decode(row.data)["artifact_id"])
            for row in self.records(selection)
            if row.type == "artifact.created" and row.data is not None
        )
        return [each for each in made if self._store.artifact(selection.workspace, each) is not None]

    def _storage(self, selection: Selection) -> list[tuple[str, str]]:
        """The stored values whose last writer is a selected run."""
        last: dict[tuple[str, str], bool] = {}
        for row in self._rows():
            if row.type != "storage.updated" or row.data is None or row.run_id is None:
                continue
            run = self._store.run(row.run_id)
            if run is not None:
                last[storage_place(_facts(run.facts), _decode(row.data))] = row.run_id in selection.runs
        return [place for place, is_selected in last.items() if is_selected]

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


def _chunks(found: list[_Found]) -> Iterator[list[_Found]]:
    for start in range(0, len(found), _STEP):
        yield found[start : start + _STEP]

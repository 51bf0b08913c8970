"""Deletes the state values that somebody wrote: those of one run, agent, actor or source of events, in every scope.

Each deletion is a record of its own, and counts only while the value is the one that was judged: what somebody else
wrote meanwhile stays. A purge that was cut off is asked for again, and finds what is left.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, cast

import msgspec

from bollard.host.clock import Clock
from bollard.host.limits import PURGED_STATE_LISTED
from bollard.host.log.entries import Committed, Entry, StateExpectation, Told
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, RunFacts, encode_data, owned_scope_key, owner_of
from bollard.host.store.rows import WrittenState
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, StateScope

# Where state comes from: the version of a value is the id of the record that wrote it, so the record names the run,
# and the run its agent, its event and whoever spoke.
#
# A run that another run called is counted as that one's too: what somebody had others write, they wrote.


_RUNS: Final = 4096
"""Runs that are remembered while values are looked through: one run often wrote many."""


class WriterQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whose values are meant: what is named must all be true."""

    run_id: str | None = None
    agent_id: str | None = None
    actor: tuple[str, str] | None = None
    """Type and id."""
    source: str | None = None
    """Of the event that a run began with."""


class Writer(msgspec.Struct, frozen=True):
    """The run that wrote a value, and those that called it, the nearest first; with the sources of their events,
    `None` for one that is not known any more."""

    runs: tuple[RunFacts, ...]
    sources: tuple[str | None, ...]

    def matches(self, query: WriterQuery) -> bool | None:
        """Nothing where it cannot be said."""
        runs = self.runs
        if query.run_id is not None and all(run.run_id != query.run_id for run in runs):
            return False
        if query.agent_id is not None and all(run.agent_id != query.agent_id for run in runs):
            return False
        if query.actor is not None and all((run.actor_type, run.actor_id) != query.actor for run in runs):
            return False
        if query.source is None or query.source in self.sources:
            return True
        return None if None in self.sources else False


class _Said(msgspec.Struct):
    """What the record of a value says of it; other fields are passed over."""

    scope: str
    key: str
    version: int = 0


_decode_origin: Final = msgspec.json.Decoder(_Said).decode
_facts: Final = msgspec.json.Decoder(RunFacts).decode


class StateWriters:
    """Finds writers of one workspace. Blocks: for a thread."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store = store
        self._workspace = workspace
        self._of_run = lru_cache(_RUNS)(self._look_up)

    def of(self, value: WrittenState) -> Writer | None:
        """Nothing where the record with the id of the version did not write it: the version was counted, or given by
        the host that the workspace was imported from."""
        if value.run_id is None or value.data is None:
            return None
        try:
            said = _decode_origin(value.data)
        except msgspec.ValidationError:  # not written by a host: an archive may hold anything
            return None
        if (said.scope, said.key, said.version) != (value.scope, value.key, value.version):
            return None
        return self._of_run(value.run_id)

    def _look_up(self, run_id: str) -> Writer | None:
        runs: list[RunFacts] = []
        sources: list[str | None] = []
        above: str | None = run_id
        while above is not None and all(run.run_id != above for run in runs):
            row = self._store.run(above)
            if row is None or row.workspace != self._workspace:
                break
            event = self._store.event(self._workspace, row.event_id)
            runs.append(_facts(row.facts))
            sources.append(None if event is None else event.source)
            above = row.parent_run_id
        return Writer(tuple(runs), tuple(sources)) if runs else None


_PAGE: Final = 100
"""Values that are read, and deleted, at once: their records hold the values."""
_START: Final = ("", "")


class FoundState(msgspec.Struct, frozen=True):
    """A value that is meant, and the run that wrote it."""

    value: WrittenState
    run_id: str
    owner: dict[str, str]


@dataclass(slots=True)
class StatePurge:
    """What became of the values of a workspace."""

    matched: int = 0
    deleted: int = 0
    kept: int = 0
    """Overwritten, or gone, between the look and the deletion."""
    unknown: int = 0
    """Nobody can say any more who wrote them."""
    listed: list[FoundState] = field(default_factory=list[FoundState])
    """The first of those that match."""


class StatePurger:
    """Looks through the state of a workspace, page by page."""

    def __init__(self, store: Store, journal: Journal, clock: Clock) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock

    async def purge(self, workspace: str, query: WriterQuery, *, by: str, dry_run: bool = False) -> StatePurge:
        """Everything that was there when it began is looked at."""
        told, after = StatePurge(), _START
        writers = StateWriters(self._store, workspace)
        while True:
            now_ms = self._clock.now_ms()
            rows = await asyncio.to_thread(self._store.written_states, workspace, after, _PAGE, now_ms)
            if not rows:
                return told
            found, unknown = await asyncio.to_thread(_chosen, writers, workspace, query, rows)
            told.matched += len(found)
            told.unknown += unknown
            told.listed += found[: PURGED_STATE_LISTED - len(told.listed)]
            if found and not dry_run:
                deleted = await self._delete(workspace, found, by, now_ms)
                told.deleted += deleted
                told.kept += len(found) - deleted
            after = rows[-1].scope_key, rows[-1].key

    async def _delete(self, workspace: str, found: Sequence[FoundState], by: str, now_ms: int) -> int:
        """In one commit; returns how many were still what was judged."""
        records = [
            NewRecord(workspace=workspace, type="state.deleted", data=_deletion_data(each, by), created_ms=now_ms)
            for each in found
        ]
        expects = [_expectation(number, each, by, now_ms) for number, each in enumerate(found)]
        size = sum(len(record.data) for record in records)
        outcome = await self._journal.commit_through(Entry(records=records, expects=expects, size=size))
        judged = outcome.judged if isinstance(outcome, Committed) else ()
        return sum(not each.unmet for each in judged)


def _chosen(
    writers: StateWriters, workspace: str, query: WriterQuery, rows: Sequence[WrittenState]
) -> tuple[list[FoundState], int]:
    """Those that match, and the number of those that nobody can judge."""
    found: list[FoundState] = []
    unknown = 0
    for row in rows:
        writer = writers.of(row)
        matches = None if writer is None else writer.matches(query)
        if writer is None or matches is None:
            unknown += 1
        elif matches:
            run, scope = writer.runs[0], cast("StateScope", row.scope)
            owner = owner_of(run, scope)
            if owned_scope_key(workspace, scope, owner) == row.scope_key:
                found.append(FoundState(row, run.run_id, owner))
            else:
                unknown += 1
    return found, unknown


def _deletion_data(found: FoundState, by: str) -> bytes:
    """Whose value it was stands in parts: the digest is made of them and the record's own workspace, so that a record
    reaches into no other."""
    value = found.value
    data: JsonObject = {
        "scope": value.scope,
        "key": value.key,
        "owner": {**found.owner},
        "version": value.version,
        "written_by": found.run_id,
        "by": by,
    }
    return encode_data(data)


def _expectation(number: int, found: FoundState, by: str, now_ms: int) -> StateExpectation:
    value = found.value
    refused: JsonObject = {"scope": value.scope, "key": value.key, "version": value.version, "size": 0, "by": by}
    return StateExpectation(
        record=number,
        otherwise=("state.refused", encode_data(refused)),
        scope_key=value.scope_key,
        key=value.key,
        now_ms=now_ms,
        version=value.version,
    )


# Deletes an artifact before its time: from the commit on nobody reads it, and its content is swept where nothing else
# has the same. Its record stays, with its name and its digest.


async def remove_artifact(
    journal: Journal, workspace: str, artifact_id: str, *, by: str, now_ms: int, then: Told | None = None
) -> None:
    """On disk when this returns; `then` hears of it, also when nobody waits any more."""
    data = encode_data({"artifact_id": artifact_id, "by": by})
    record = NewRecord(workspace=workspace, type="artifact.deleted", data=data, created_ms=now_ms)
    await journal.commit_through(Entry(records=[record], size=len(record.data)), then)

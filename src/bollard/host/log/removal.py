"""The purge of state values by writer: those of one run, agent, actor or event source, in every scope.

Each deletion is a record of its own, and applies only if the value has not changed since it was selected. An
interrupted purge is repeated, and deletes the rest.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol, cast

import msgspec

from bollard.host.clock import Clock
from bollard.host.limits import PURGED_STATE_LISTED
from bollard.host.log.entries import CommitListener, CommitResult, Committed, Entry, StateExpectation
from bollard.host.log.records import NewRecord, RunFacts, encode_data, owned_scope_key, owner_of
from bollard.host.scope import Actor
from bollard.host.store.rows import WrittenState
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, StateScope

_RUNS: Final = 4096
"""Runs that are cached during a purge: one run often wrote many values."""


class Committing(Protocol):
    """A journal, or the writer of a store that no host uses."""

    async def commit_through(self, entry: Entry, then: CommitListener | None = None) -> CommitResult: ...


class WriterQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Selects values by their writer. All given fields must match."""

    run_id: str | None = None
    run_ids: frozenset[str] | None = None
    """Any of these runs."""
    agent_id: str | None = None
    actor: Actor | None = None
    """Type and id."""
    source: str | None = None
    """The source of the event that started the run."""


class Writer(msgspec.Struct, frozen=True):
    """The run that wrote a value and the runs that called it, nearest first, because a calling run is responsible for
    what its calls wrote; with the sources of their events, `None` if unknown."""

    runs: tuple[RunFacts, ...]
    sources: tuple[str | None, ...]

    def matches(self, query: WriterQuery) -> bool | None:
        """Whether the query selects this writer; `None` if that is unknown."""
        runs = self.runs
        if query.run_id is not None and all(run.run_id != query.run_id for run in runs):
            return False
        if query.run_ids is not None and all(run.run_id not in query.run_ids for run in runs):
            return False
        if query.agent_id is not None and all(run.agent_id != query.agent_id for run in runs):
            return False
        if query.actor is not None and all(run.actor != query.actor for run in runs):
            return False
        if query.source is None or query.source in self.sources:
            return True
        return None if None in self.sources else False


class _Origin(msgspec.Struct):
    """The fields of a `state.updated` record that identify the value."""

    scope: str
    key: str
    version: int = 0


_decode_origin: Final = msgspec.json.Decoder(_Origin).decode
_facts: Final = msgspec.json.Decoder(RunFacts).decode


class StateWriters:
    """Finds the writers of the values of one workspace. The version of a value is the id of the record that wrote it,
    and that record names the run. Blocks: call it in a thread."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store = store
        self._workspace = workspace
        self._of_run = lru_cache(_RUNS)(self._look_up)

    def of(self, value: WrittenState) -> Writer | None:
        """The writer; `None` if the record whose id is the version did not write the value: an old host counted the
        version, or the host that the workspace was imported from assigned it."""
        if value.run_id is None or value.data is None:
            return None
        try:
            origin = _decode_origin(value.data)
        except msgspec.ValidationError:  # not written by a host: an archive may hold anything
            return None
        if (origin.scope, origin.key, origin.version) != (value.scope, value.key, value.version):
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
"""Values per read and per commit: their records hold the values."""
_START: Final = ("", "")


class FoundState(msgspec.Struct, frozen=True):
    """A selected value, and the run that wrote it."""

    value: WrittenState
    run_id: str
    owner: dict[str, str]


@dataclass(slots=True)
class StatePurge:
    """The result of a purge."""

    matched: int = 0
    deleted: int = 0
    kept: int = 0
    """Changed or deleted between selection and deletion."""
    unknown: int = 0
    """Values with an unknown writer."""
    listed: list[FoundState] = field(default_factory=list[FoundState])
    """The first matching values."""


class StatePurger:
    """Purges the state of a workspace, page by page."""

    def __init__(self, store: Store, journal: Committing, clock: Clock) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock

    async def purge(self, workspace: str, query: WriterQuery, *, by: str, dry_run: bool = False) -> StatePurge:
        """Delete the selected values, or only count them in a dry run. Covers all values that exist at the start."""
        result, after = StatePurge(), _START
        writers = StateWriters(self._store, workspace)
        while True:
            now_ms = self._clock.now_ms()
            rows = await asyncio.to_thread(self._store.written_states, workspace, after, _PAGE, now_ms)
            if not rows:
                return result
            selected, unknown = await asyncio.to_thread(_select, writers, workspace, query, rows)
            result.matched += len(selected)
            result.unknown += unknown
            result.listed += selected[: PURGED_STATE_LISTED - len(result.listed)]
            if selected and not dry_run:
                deleted = await self._delete(workspace, selected, by, now_ms)
                result.deleted += deleted
                result.kept += len(selected) - deleted
            after = rows[-1].scope_key, rows[-1].key

    async def _delete(self, workspace: str, found: Sequence[FoundState], by: str, now_ms: int) -> int:
        """Delete values in one commit; returns how many had not changed."""
        records = [
            NewRecord(workspace=workspace, type="state.deleted", data=_deletion_data(each, by), created_ms=now_ms)
            for each in found
        ]
        expects = [_expectation(number, each, by, now_ms) for number, each in enumerate(found)]
        size = sum(len(record.data) for record in records)
        outcome = await self._journal.commit_through(Entry(records=records, expects=expects, size=size))
        results = outcome.judged if isinstance(outcome, Committed) else ()
        return sum(not result.unmet for result in results)


def _select(
    writers: StateWriters, workspace: str, query: WriterQuery, rows: Sequence[WrittenState]
) -> tuple[list[FoundState], int]:
    """The matching values, and the number of values with an unknown writer."""
    selected: list[FoundState] = []
    unknown = 0
    for row in rows:
        writer = writers.of(row)
        matches = None if writer is None else writer.matches(query)
        if writer is None or matches is None:
            unknown += 1
        elif matches:
            run, scope = writer.runs[0], cast("StateScope", row.scope)
            owner = owner_of(run, run.agent_id, run.runner_id, scope)
            if owned_scope_key(workspace, scope, owner) == row.scope_key:
                selected.append(FoundState(row, run.run_id, owner))
            else:
                unknown += 1
    return selected, unknown


def _deletion_data(found: FoundState, by: str) -> bytes:
    """The record names the owner in parts: the digest is made of them and the record's own workspace, so a record
    cannot delete values of another workspace."""
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
    refusal: JsonObject = {"scope": value.scope, "key": value.key, "version": value.version, "size": 0, "by": by}
    return StateExpectation(
        record=number,
        otherwise=("state.refused", encode_data(refusal)),
        scope_key=value.scope_key,
        key=value.key,
        now_ms=now_ms,
        version=value.version,
    )


async def remove_artifact(
    journal: Committing, workspace: str, artifact_id: str, *, by: str, now_ms: int, then: CommitListener | None = None
) -> None:
    """Delete an artifact before it expires. Its record stays, with name and digest; its content is swept if no other
    artifact has the same. Returns after the commit; `then` is called even if the caller was cancelled."""
    data = encode_data({"artifact_id": artifact_id, "by": by})
    record = NewRecord(workspace=workspace, type="artifact.deleted", data=data, created_ms=now_ms)
    await journal.commit_through(Entry(records=[record], size=len(record.data)), then)

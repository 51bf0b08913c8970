"""Deletes the state values that somebody wrote: those of one run, agent, actor or source of events, in every scope.

Each deletion is a record of its own, and counts only while the value is the one that was judged: what somebody else
wrote meanwhile stays. A purge that was cut off is asked for again, and finds what is left.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import msgspec

from bollard.host.clock import Clock
from bollard.host.limits import PURGED_STATE_LISTED
from bollard.host.log.entries import Committed, Entry, StateExpectation
from bollard.host.log.facts import owned_scope_key, owner_of
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.log.state_writers import StateWriters, WriterQuery
from bollard.host.store.boundary import Store
from bollard.host.store.rows import WrittenState
from bollard.protocol import JsonObject, StateScope

__all__ = ["FoundState", "StatePurge", "StatePurger"]

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
            NewRecord(workspace=workspace, type="state.deleted", data=_said(each, by), created_ms=now_ms)
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


def _said(found: FoundState, by: str) -> bytes:
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

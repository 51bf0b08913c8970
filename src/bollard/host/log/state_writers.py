"""Where state comes from: the version of a value is the id of the record that wrote it, so the record names the run,
and the run its agent, its event and whoever spoke.

A run that another run called is counted as that one's too: what somebody had others write, they wrote.
"""

from functools import lru_cache
from typing import Final

import msgspec

from bollard.host.log.facts import RunFacts
from bollard.host.store.boundary import Store
from bollard.host.store.rows import WrittenState

__all__ = ["StateWriters", "Writer", "WriterQuery"]

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


_said: Final = msgspec.json.Decoder(_Said).decode
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
            said = _said(value.data)
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

"""Queries of the store: pages of runs, records and messages, and the lease of a run."""

from typing import Final

import msgspec

from bollard.host.store.rows import RunRow

EVER_MS: Final = 1 << 53
"""Later than every time in a store, even one from a clock that was wrong."""


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a run, and the end of the lease by the store's clock."""

    owner: str
    epoch: int
    until_ms: int


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of runs, newest first: those before `before` (created_ms, run_id)."""

    workspace: str
    limit: int
    before: tuple[int, str] | None = None
    statuses: frozenset[str] | None = None
    agent_id: str | None = None
    conversation: str | None = None
    parent: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    """Exclusive."""


class InputFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions for the events of runs. `None` matches every event."""

    source: str | None = None
    actor_id: str | None = None
    text: str | None = None
    """A part of the first characters of the message, in any case."""


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run and the origin of its event. Erased events have none."""

    run: RunRow
    source: str | None
    actor_type: str | None
    actor_id: str | None
    actor_name: str | None
    summary: str | None


class CountedRun(msgspec.Struct, frozen=True, gc=False):
    """The parts of a run that an overview counts."""

    run_id: str
    agent_id: str
    status: str
    reason: str | None
    usage: str | None
    created_ms: int


class RunPage(msgspec.Struct, frozen=True):
    """A page of runs."""

    rows: list[ListedRun]
    searched_to: tuple[int, str] | None = None
    """The last run that was searched, if the search stopped at its limit."""


class RecordQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one workspace with ids between `above` and `below`, both exclusive."""

    workspace: str
    above: int
    below: int
    limit: int
    forward: bool = False
    """Oldest first; otherwise the newest."""
    types: frozenset[str] | None = None
    but_types: frozenset[str] = frozenset()
    run_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    """Exclusive."""


class FactQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Records about the newest runs of one agent in one conversation and thread, newest first."""

    workspace: str
    agent: str
    bot: str | None
    conversation: str
    thread: str | None
    before: int | None
    """Only records before this one, of runs that began before it."""
    runs: int
    limit: int


class TranscriptQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of one conversation and thread. `before` and `after` are transcript seqs. All bounds are exclusive."""

    workspace: str
    bot: str | None
    conversation: str
    thread: str | None
    limit: int
    before: int | None = None
    after: int | None = None
    forward: bool = False
    role: str | None = None
    before_ms: int | None = None
    after_ms: int | None = None
    event_types: tuple[str, ...] | None = None
    """The types of the events that the messages belong to."""
    actor_type: str | None = None
    actor_id: str | None = None
    """The sender of a message; an answer has none."""

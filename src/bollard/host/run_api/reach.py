"""What a run may know of, whether it is an event, a message or an artifact: what happened in its own place. All else
does not exist for it.

A place is a workspace, a bot, a conversation and a thread. Where the grant names a conversation and its history may be
read, all its threads are in reach, of the run's own bot.
"""

from collections.abc import Callable
from typing import Protocol

from bollard.host.clock import Clock
from bollard.host.grants.check import Allowed, check, whole_conversation
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.rows import ArtifactRow
from bollard.host.store.store import Store

FindArtifact = Callable[[LiveRun, str], ArtifactRow | None]
"""The artifact of this id, if the run may know of it. Blocks."""


class Placed(Protocol):
    """Whatever happened somewhere."""

    @property
    def workspace(self) -> str: ...
    @property
    def bot(self) -> str | None: ...
    @property
    def conversation(self) -> str | None: ...
    @property
    def thread(self) -> str | None: ...


def reaches(run: LiveRun, there: Placed) -> bool:
    """Whether something that happened there is in the run's reach. What happened in no conversation is in nobody's."""
    here = run.facts
    if not there.conversation or (there.workspace, there.bot) != (here.workspace, here.bot):
        return False
    if (there.conversation, there.thread) == (here.conversation, here.thread):
        return True
    grant, revoked, conversation = run.grant, run.revoked, there.conversation
    named = whole_conversation(grant, revoked, conversation)
    return named and isinstance(check(grant, revoked, "history.page", conversation), Allowed)


def _where(there: Placed) -> tuple[str | None, ...]:
    return there.workspace, there.bot, there.conversation, there.thread


class ArtifactReach:
    """Looks artifacts up for runs."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def find(self, run: LiveRun, artifact_id: str) -> ArtifactRow | None:
        row = self._alive(run.facts.workspace, artifact_id)
        if row is None:
            return None
        if row.run_id == run.facts.run_id:
            return row
        if not row.conversation:  # a file of the workspace, or what came with an event that nobody took
            return None
        there = self._place(row)
        return row if there is not None and reaches(run, there) else None

    def made_in(self, there: Placed, artifact_id: str) -> ArtifactRow | None:
        """The artifact of this id, if it was made in that very place: every run there may know of it."""
        row = self._alive(there.workspace, artifact_id)
        made = None if row is None or not row.conversation else self._place(row)
        return row if made is not None and _where(made) == _where(there) else None

    def _alive(self, workspace: str, artifact_id: str) -> ArtifactRow | None:
        row = self._store.artifact(workspace, artifact_id)
        return None if row is None or (row.expires_ms is not None and row.expires_ms <= self._clock.now_ms()) else row

    def _place(self, row: ArtifactRow) -> Placed | None:
        """Where it was made. A row names a conversation alone, and two bots may have conversations of one name."""
        if row.run_id is not None:
            return self._store.run(row.run_id)
        # What came with an event whose run was not known yet bears the event's name.
        return self._store.event(row.workspace, row.name) if row.source == "event" and row.name is not None else None


# What the rows of one answer bring along, collected while they are read beside the loop.


class _Row(Protocol):
    @property
    def flow(self) -> int: ...


class _Keyed(_Row, Protocol):
    @property
    def key(self) -> str: ...


class FlowTracker:
    """Bits of `Flow`. Handed to the run before it gets the answer."""

    def __init__(self) -> None:
        self.bits = 0

    def by(self, row: _Row) -> None:
        self.bits |= row.flow

    def key(self, row: _Keyed, prefix: str = "") -> str:
        """The key of a row; of one that is listed, so that it counts."""
        if row.key.startswith(prefix):
            self.by(row)
        return row.key

"""The reach of a run: the events, messages and artifacts of its own workspace, bot, conversation and thread.

Everything else does not exist for the run. If the grant names a conversation and allows its history, all threads of
that conversation on the run's bot are in reach.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from bollard.host.clock import Clock
from bollard.host.files.message_file import MessageFile
from bollard.host.grants.check import Allowed, check, whole_conversation
from bollard.host.run_api.pages import Cursors, keys_with
from bollard.host.runs.live_run import LiveRun
from bollard.host.scope import Place
from bollard.host.store.keys import key_problem
from bollard.host.store.rows import MESSAGE_SOURCE, ArtifactRow, RunRow
from bollard.host.store.store import Store
from bollard.protocol import KeyPage, StateList, StorageList

FetchContent = Callable[[ArtifactRow], Awaitable[ArtifactRow]]
"""The artifact with its content, which is fetched first if a channel has it. Raises `NotFound`."""


async def as_stored(row: ArtifactRow) -> ArtifactRow:
    """Fetches nothing."""
    return row


FindArtifact = Callable[[LiveRun, str], ArtifactRow | None]
"""The artifact with this id, if it is in the reach of the run. Blocks."""


def reaches(run: LiveRun, there: Place) -> bool:
    """Whether a row of that place is in the reach of the run. A row without a conversation never is."""
    here = run.facts
    if not there.conversation or (there.workspace, there.bot) != (here.workspace, here.bot):
        return False
    if (there.conversation, there.thread) == (here.conversation, here.thread):
        return True
    grant, revoked, conversation = run.grant, run.revoked, there.conversation
    named = whole_conversation(grant, revoked, conversation)
    return named and isinstance(check(grant, revoked, "history.page", conversation), Allowed)


def _where(there: Place) -> tuple[str | None, ...]:
    return there.workspace, there.bot, there.conversation, there.thread


class ArtifactReach:
    """Finds artifacts for runs."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def find(self, run: LiveRun, artifact_id: str) -> ArtifactRow | None:
        row = self._alive(run.facts.workspace, artifact_id)
        if row is None:
            return None
        if row.run_id == run.facts.run_id:
            return row
        if not row.conversation:  # a file of the workspace, or the payload of an event without a run
            return None
        there = self._place(row)
        return row if there is not None and reaches(run, there) else None

    def of_run(self, run: RunRow, artifact_id: str) -> ArtifactRow | None:
        """The artifact with this id, if the run made it or it belongs to the place of the run."""
        row = self._alive(run.workspace, artifact_id) if key_problem(artifact_id) is None else None
        return row if row is None or row.run_id == run.run_id else self.made_in(run, artifact_id)

    def made_in(self, there: Place, artifact_id: str) -> ArtifactRow | None:
        """The artifact with this id, if it belongs to exactly that place."""
        row = self._alive(there.workspace, artifact_id)
        made = None if row is None or not row.conversation else self._place(row)
        return row if made is not None and _where(made) == _where(there) else None

    def _alive(self, workspace: str, artifact_id: str) -> ArtifactRow | None:
        row = self._store.artifact(workspace, artifact_id)
        return None if row is None or (row.expires_ms is not None and row.expires_ms <= self._clock.now_ms()) else row

    def _place(self, row: ArtifactRow) -> Place | None:
        """The place of an artifact. Its row has no bot, and conversations of two bots may have the same name."""
        if row.source == MESSAGE_SOURCE:
            return MessageFile.of_row(row).place
        if row.run_id is not None:
            return self._store.run(row.run_id)
        # The payload of an event is named after the event.
        return self._store.event(row.workspace, row.name) if row.source == "event" and row.name is not None else None


class _Row(Protocol):
    @property
    def flow(self) -> int: ...


class _Keyed(_Row, Protocol):
    @property
    def key(self) -> str: ...


class FlowTracker:
    """Collects the bits of `Flow` of rows that are read in a thread. The run takes them before the response is sent."""

    def __init__(self) -> None:
        self.bits = 0

    def by(self, row: _Row) -> None:
        self.bits |= row.flow

    def key(self, row: _Keyed, prefix: str = "") -> str:
        """The key of a row. Its bits count if the key has the prefix and is listed."""
        if row.key.startswith(prefix):
            self.by(row)
        return row.key


async def key_page(
    run: LiveRun,
    cursors: Cursors,
    action: str,
    area: str,
    params: StateList | StorageList,
    *,
    row: Callable[[str], _Keyed | None],
    rows: Callable[[str, int], Sequence[_Keyed]],
) -> KeyPage:
    """A page of keys. `area` is a state scope or a storage area. `row` finds a key, `rows` the keys after one."""
    flow, prefix = FlowTracker(), params.prefix
    sealed = (action, run.facts.run_id, f"{area}/{prefix}")
    after = cursors.open_key(*sealed, params.cursor)

    def has(key: str) -> bool:
        found = row(key)
        return found is not None and flow.key(found) == key

    def behind(key: str, count: int) -> list[str]:
        return [flow.key(each, prefix) for each in rows(key, count)]

    keys, has_more = await asyncio.to_thread(keys_with, prefix, after, params.limit, has=has, behind=behind)
    run.take_in(flow.bits)  # keys are content of their writers, like values
    cursor = cursors.seal_key(*sealed, keys[-1]) if has_more else None
    return KeyPage(keys=tuple(keys), next_cursor=cursor, has_more=has_more)

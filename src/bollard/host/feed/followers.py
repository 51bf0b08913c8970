"""Followers of events: read the events of each workspace that asks for some, in order, from a durable position.

The position is stored beside the log after the consumer has taken a page. A restart continues from it, so that the
consumer gets each event once or again, and must know the event by its id.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from bollard.host.background import Background
from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.feed.event_reader import EventReader
from bollard.host.feed.feed_event import FeedEvent, Selection
from bollard.host.limits import FEED_RETRY_S, FEED_STRIDE
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.kill_points import kill_point
from bollard.host.store.rows import DropKept, KeptChange, KeptRow, PutKept
from bollard.host.store.store import Store

POSITION: Final = "feed_position"
"""The kind of row that holds the position of a follower."""
_log = structlog.get_logger("bollard.feed")


class Consumer(Protocol):
    """Takes the events of workspaces."""

    @property
    def name(self) -> str:
        """Names its positions."""
        ...

    def selection(self, workspace: str) -> Selection | None:
        """The events that it wants now. `None` if it wants none."""
        ...

    async def take(self, workspace: str, events: Sequence[FeedEvent]) -> Sequence[KeptChange]:
        """Take a page. Returns rows to store together with the position after the page."""
        ...

    def taken(self, workspace: str) -> None:
        """Called when the position after the page is on disk."""
        ...


class Followers:
    """One follower for each workspace whose events the consumer wants."""

    def __init__(self, consumer: Consumer, *, journal: Journal, store: Store, clock: Clock) -> None:
        self._consumer = consumer
        self._journal = journal
        self._store = store
        self._clock = clock
        self._reader = EventReader(store)
        self._following: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, asyncio.Event] = {}
        """Wakes the follower of a workspace."""
        self._changed: set[str] = set()
        self._woken = asyncio.Event()
        self._background = Background()

    def refresh(self, workspace: str) -> None:
        """The consumer wants other events of this workspace."""
        self._changed.add(workspace)
        self._woken.set()

    async def beginning(self, workspace: str) -> Sequence[KeptChange]:
        """The rows of the commit that makes the consumer want events: a crash right after it loses none."""
        if workspace in self._following:
            return ()
        return [PutKept(self._position(workspace, await asyncio.to_thread(self._reader.newest)))]

    async def run(self, recovered: asyncio.Event) -> None:
        """Follow until cancelled. Starts when recovery has ended the interrupted runs."""
        await recovered.wait()
        for row in await asyncio.to_thread(self._store.all_kept, POSITION):
            if row.id == self._consumer.name:
                self._changed.add(row.workspace)
        while True:
            while self._changed:
                await self._apply(self._changed.pop())
            self._woken.clear()
            await self._woken.wait()

    async def close(self) -> None:
        await self._background.close()

    async def _apply(self, workspace: str) -> None:
        """Start or end the follower of a workspace."""
        wants = self._consumer.selection(workspace) is not None
        task = self._following.get(workspace)
        if wants and task is None:
            self._following[workspace] = self._background.begin(self._follow(workspace))
        elif wants and workspace in self._waiting:
            self._waiting[workspace].set()  # it follows other types of records from now on
        elif not wants:
            if task is not None:
                del self._following[workspace]
                task.cancel()
            await self._write(workspace, [DropKept(POSITION, workspace, self._consumer.name)])

    async def _follow(self, workspace: str) -> None:
        while True:
            try:
                position = await self._first(workspace)
                break
            except HostError as error:
                _log.warning("a position in the log could not be read", problem=error.message)
                await asyncio.sleep(FEED_RETRY_S)
        stored = position
        while (selection := self._consumer.selection(workspace)) is not None:
            with self._journal.watch.follow(workspace, selection.records) as woken:
                self._waiting[workspace] = woken
                try:
                    page = await asyncio.to_thread(self._reader.page, workspace, position, selection)
                    rows = await self._consumer.take(workspace, page.events)
                except HostError as error:
                    _log.warning("events could not be read", workspace=workspace, problem=error.message)
                    await asyncio.sleep(FEED_RETRY_S)
                    continue
                if page.events or page.read_to - stored >= FEED_STRIDE:
                    kill_point("feed.after_take")
                    await self._write(workspace, [*rows, PutKept(self._position(workspace, page.read_to))])
                    stored = page.read_to
                    self._consumer.taken(workspace)
                position = page.read_to
                if not page.more:
                    await woken.wait()

    async def _first(self, workspace: str) -> int:
        """The stored position. Without one, for example after an upgrade, only later events count."""
        row = await asyncio.to_thread(self._store.kept, POSITION, workspace, self._consumer.name)
        if row is not None:
            return int(row.body)
        newest = await asyncio.to_thread(self._reader.newest)
        await self._write(workspace, [PutKept(self._position(workspace, newest))])
        return newest

    async def _write(self, workspace: str, rows: Sequence[KeptChange]) -> None:
        """Store rows. Retries until the store takes them, because later positions depend on them."""
        while True:
            try:
                await self._journal.commit(Entry(keeps=list(rows)))
            except HostError as error:
                _log.warning("a position in the log could not be stored", workspace=workspace, problem=error.message)
                await asyncio.sleep(FEED_RETRY_S)
            else:
                return

    def _position(self, workspace: str, position: int) -> KeptRow:
        return KeptRow(
            kind=POSITION,
            workspace=workspace,
            id=self._consumer.name,
            body=b"%d" % position,
            expires_ms=None,
            updated_ms=self._clock.now_ms(),
        )

"""The outbox: reads pending messages, sends those of each target in order, and follows runs for new ones.

The commit that completes a message puts it into the outbox, so a restart continues where the host stopped.
"""

import asyncio
import contextlib
from collections import Counter, deque
from typing import Final

import msgspec
import structlog

from bollard.host.background import Background
from bollard.host.channels.registry import Channels
from bollard.host.clock import Clock
from bollard.host.delivery.channel_status import ChannelStatuses
from bollard.host.delivery.contents import Contents
from bollard.host.delivery.delivery_log import DeliveryLog
from bollard.host.delivery.interaction_content import INTERACTION_RECORDS
from bollard.host.delivery.previews import Previews
from bollard.host.delivery.sender import Counts, PendingDelivery, Sender
from bollard.host.errors import HostError
from bollard.host.limits import (
    DELIVERIES_AT_ONCE,
    DELIVERIES_OF_CHANNEL,
    DELIVERIES_OF_CHANNEL_AT_ONCE,
    DELIVERY_LOOK_S,
    DELIVERY_RETRY_AFTER_S,
    DELIVERY_WAIT_MAX_S,
    KEEP_ALIVE_S,
    REPLAY_PAGE,
)
from bollard.host.log.journal import Journal
from bollard.host.log.records import RunFacts
from bollard.host.runs.hub import Hub, StreamRecord, Subscription
from bollard.host.store.rows import OutboxRow
from bollard.host.store.store import Store

Place = tuple[str, str]
"""Workspace and channel."""


class OutboxWindow:
    """Which messages of the outbox are in memory: up to `most` of each channel, in order. Pure.

    A slow channel fills only its own window. Messages without room stay on disk, and so do all later ones of that
    channel, until there is room. For each page call `turn`, then `admits` for each row.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: set[str] = set()
        self._of: Counter[Place] = Counter()
        self._left: dict[Place, int] = {}
        """The first record without room, of each full channel."""
        self._roomy: set[Place] = set()
        """Full channels that have room again."""
        self._over: set[str] = set()
        """Deliveries that ended while a page was being read. The page may still contain them."""
        self._seen_to = 0
        self.read_to = 0
        """The last record that was read. The next page begins after it."""

    def __len__(self) -> int:
        return len(self._held)

    def is_full(self, place: Place) -> bool:
        """Whether messages of the channel stayed on disk."""
        return place in self._left

    def holds_any(self, place: Place) -> bool:
        return place in self._of

    def turn(self) -> None:
        """Start to read a page."""
        self._over.clear()
        for place in self._roomy:
            self.read_to = min(self.read_to, self._left.pop(place) - 1)
        self._roomy.clear()

    def admits(self, row: OutboxRow) -> bool:
        """Whether to process the next row of the page. A preview is processed once."""
        is_new = row.record_id > self._seen_to
        self._seen_to = max(self._seen_to, row.record_id)
        self.read_to = row.record_id
        if row.preview:
            return is_new
        place = (row.workspace, row.channel)
        if row.delivery_id in self._held or row.delivery_id in self._over or place in self._left:
            return False
        if self._of[place] >= self._most:
            self._left[place] = row.record_id
            return False
        self._held.add(row.delivery_id)
        self._of[place] += 1
        return True

    def release(self, row: OutboxRow) -> bool:
        """Remove a delivery that has ended. Returns whether there is room for messages on disk."""
        place = (row.workspace, row.channel)
        self._held.discard(row.delivery_id)
        self._over.add(row.delivery_id)
        self._of[place] -= 1
        left = self._of[place]
        if not left:
            del self._of[place]
        if place in self._left and left <= self._most // 2:
            self._roomy.add(place)
            return True
        return False


_log = structlog.get_logger("bollard.delivery")
_Lane = tuple[str, str, str]
"""Workspace, channel and target. Messages of a lane are sent in order."""


class _Chunk(msgspec.Struct):
    content: str | None = None


class _Data(msgspec.Struct):
    chunk: _Chunk = msgspec.field(default_factory=_Chunk)
    message_id: str | None = None


class _Record(msgspec.Struct):
    data: _Data


_decode: Final = msgspec.json.Decoder(_Record).decode


class Delivery:
    """Delivers the messages of all runs."""

    def __init__(
        self,
        *,
        journal: Journal,
        store: Store,
        hub: Hub,
        clock: Clock,
        channels: Channels,
        contents: Contents | None = None,
    ) -> None:
        self._store = store
        self._hub = hub
        self._clock = clock
        log = DeliveryLog(journal, clock)
        self._previews = Previews(channels, log, self._is_busy)
        self._statuses = ChannelStatuses(journal, clock)
        self._sender = Sender(channels, log, self._previews, contents or Contents(store, clock), clock, self._statuses)
        self._lanes: dict[_Lane, deque[PendingDelivery]] = {}
        self._of_run: Counter[str] = Counter()
        """Pending messages by run."""
        self._followed: dict[str, str] = {}
        """Unfinished runs, with their workspace."""
        self._window = OutboxWindow(DELIVERIES_OF_CHANNEL)
        self._begun = asyncio.Event()
        self._woken = asyncio.Event()
        self._reading = asyncio.Lock()
        self._left_previews: list[tuple[str, str]] = []
        """Run and workspace of previews that an earlier incarnation left open."""
        self._sending = asyncio.Semaphore(DELIVERIES_AT_ONCE)
        self._channel_slots: dict[Place, asyncio.Semaphore] = {}
        """Limits each channel, so that a slow one does not take all slots."""
        self._background = Background()
        self._closing = False

    def forget(self, workspace: str, channel_id: str) -> None:
        """Forget a deleted channel."""
        self._statuses.forget(workspace, channel_id)

    def degraded(self, workspace: str) -> list[str]:
        """The channels of a workspace that fail."""
        return self._statuses.degraded(workspace)

    @property
    def counts(self) -> Counts:
        return self._sender.counts

    @property
    def waiting(self) -> int:
        """The number of pending messages in memory."""
        return len(self._window)

    # --- runs ---

    def follow(self, facts: RunFacts) -> None:
        """Follow a run that is on disk and has no output yet. A no-op for a run without a delivery target."""
        if facts.deliver_to is not None:
            self._followed[facts.run_id] = facts.workspace
            self._background.begin(self._listen(facts, self._hub.subscribe(facts.run_id)))

    async def _listen(self, facts: RunFacts, subscription: Subscription) -> None:
        try:
            while not subscription.over:
                for record in await subscription.take(KEEP_ALIVE_S):
                    self._handle(facts, record)
        finally:
            subscription.close()
        # A reader that fell behind misses only previews, because messages are read from disk.
        self._followed.pop(facts.run_id, None)
        await self._begun.wait()
        await self._read()
        await self._settle_previews(facts.run_id, facts.workspace)

    def _handle(self, facts: RunFacts, record: StreamRecord) -> None:
        goes_to = facts.deliver_to
        if record.type == "message.delta" and goes_to is not None and goes_to.streaming:
            with contextlib.suppress(msgspec.DecodeError):
                data = _decode(record.json).data
                if data.chunk.content:
                    self._previews.add(facts, goes_to, data.message_id or "", data.chunk.content)
        elif record.type == "message.completed":
            with contextlib.suppress(msgspec.DecodeError):
                self._previews.whole(facts.run_id, _decode(record.json).data.message_id or "")
            self._woken.set()
        elif record.type in INTERACTION_RECORDS:
            self._woken.set()

    def wake(self) -> None:
        """Read the outbox now: a record outside of the followed runs may have queued something."""
        self._woken.set()

    # --- pending messages ---

    async def run(self, recovered: asyncio.Event) -> None:
        """Deliver until cancelled. Starts when recovery has written the last messages of interrupted runs."""
        await recovered.wait()
        await self._statuses.load(self._store)
        self._begun.set()
        await self._read()
        for run_id, workspace in self._left_previews:
            await self._settle_previews(run_id, workspace)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DELIVERY_LOOK_S):
                    await self._woken.wait()
            self._woken.clear()
            await self._read()

    async def _read(self) -> None:
        """Read new messages, and those that there is room for again."""
        async with self._reading:
            while True:
                self._window.turn()
                try:
                    rows = await asyncio.to_thread(self._store.outbox_open, self._window.read_to, REPLAY_PAGE)
                except HostError as error:
                    _log.warning("the outbox could not be read", problem=error.message)
                    return
                for row in rows:
                    if self._window.admits(row):
                        self._place(row)
                if len(rows) < REPLAY_PAGE:
                    return

    def _place(self, row: OutboxRow) -> None:
        if row.preview:
            if not self._previews.knows(row):
                self._previews.restore(row)
                self._left_previews.append((row.run_id, row.workspace))
            return
        self._of_run[row.run_id] += 1
        lane = (row.workspace, row.channel, row.target)
        waiting = self._lanes.get(lane)
        if waiting is not None:
            waiting.append(PendingDelivery.of(row))
            return
        self._lanes[lane] = deque([PendingDelivery.of(row)])
        self._background.begin(self._drain(lane))

    def _is_busy(self, workspace: str, channel: str, target: str) -> bool:
        return (workspace, channel, target) in self._lanes or self._window.is_full((workspace, channel))

    async def _drain(self, lane: _Lane) -> None:
        """Send the messages of a lane one after the other. The next starts when the one before has ended."""
        queue = self._lanes[lane]
        while queue:
            pending = queue[0]
            early_s = (pending.row.due_ms - self._clock.now_ms()) / 1000
            if pending.attempts == pending.row.attempts and pending.attempts and early_s > 0:
                # A retry of an earlier incarnation. The minimum guards against a clock that was set back.
                await asyncio.sleep(min(early_s, DELIVERY_RETRY_AFTER_S))
            while (wait_s := await self._try(pending)) is not None:  # noqa: ASYNC110 -- time is what it waits for
                await asyncio.sleep(wait_s)
            queue.popleft()
            await self._done(pending.row)
        del self._lanes[lane]

    async def _try(self, pending: PendingDelivery) -> float | None:
        place = (pending.row.workspace, pending.row.channel)
        slots = self._channel_slots.setdefault(place, asyncio.Semaphore(DELIVERIES_OF_CHANNEL_AT_ONCE))
        async with slots, self._sending:
            if self._closing:
                return DELIVERY_WAIT_MAX_S
            try:
                return await self._sender.deliver(pending)
            except Exception:  # noqa: BLE001 -- a faulty channel must not end its lane
                _log.exception("a message could not be sent", delivery=pending.row.delivery_id)
                return DELIVERY_WAIT_MAX_S

    async def _done(self, row: OutboxRow) -> None:
        if self._window.release(row):
            self._woken.set()
        if not self._window.holds_any((row.workspace, row.channel)):
            self._channel_slots.pop((row.workspace, row.channel), None)
        self._of_run[row.run_id] -= 1
        if not self._of_run[row.run_id]:
            del self._of_run[row.run_id]
            await self._settle_previews(row.run_id, row.workspace)

    async def _settle_previews(self, run_id: str, workspace: str) -> None:
        if run_id not in self._followed and run_id not in self._of_run:
            await self._previews.close_left(run_id, workspace)

    async def close(self, grace_s: float) -> None:
        """Give messages that are being sent `grace_s`. The rest stays on disk for the next start."""
        self._closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                for _ in range(DELIVERIES_AT_ONCE):  # all slots are free when nothing is being sent
                    await self._sending.acquire()
        await self._background.close()
        await self._previews.close()

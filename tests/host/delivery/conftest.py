"""An in-memory host with a delivery and a channel that records messages."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_channel import MemoryChannel

from bollard.host.channels.channel import Abilities
from bollard.host.channels.registry import ChannelRepository
from bollard.host.delivery.outbox import Delivery
from bollard.host.log.saved_resources import SavedChanges
from bollard.host.runs.event import ReplyRoute
from bollard.host.store.rows import OutboxRow
from bollard.host.store.store import Store

PATIENCE_S = 120.0


class Post:
    """A stage, its delivery, and one channel called `chat`."""

    def __init__(self, stage: Any, clock: ManualClock, channel: MemoryChannel) -> None:
        self.stage = stage
        self.channel = channel
        self.book = ChannelRepository(SavedChanges(stage.journal, clock), clock)
        self.book.put("default", "chat", channel)
        self.delivery = Delivery(
            journal=stage.journal, store=stage.store, hub=stage.hub, clock=clock, channels=self.book
        )
        stage.intake._replies = self.delivery
        self.recovered = asyncio.Event()
        self.recovered.set()
        self.running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.running = asyncio.create_task(self.delivery.run(self.recovered))

    def route(self, target: str = "room-1", **more: Any) -> ReplyRoute:
        able = self.channel.abilities
        fields: dict[str, Any] = {
            "supports_streaming": able.supports_streaming,
            "supports_edit": able.supports_edit,
            "max_message_size": able.max_message_size,
        }
        return ReplyRoute(channel="chat", target=target, **{**fields, **more})

    async def say(self, text: str = "hello", target: str = "room-1", **more: Any) -> str:
        """An event of the channel; returns its run."""
        return await self.stage.say(text, **{"trigger": "platform", "reply": self.route(target), **more})

    def rows(self) -> list[OutboxRow]:
        """Oldest first."""
        return self.stage.store.outbox("default", None, None, 1000)[::-1]

    @property
    def statuses(self) -> list[str]:
        return [row.status for row in self.rows()]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Until the delivery has come so far; it works in this loop and in threads."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 -- the condition is on disk, without a notification
                await asyncio.sleep(0.002)

    async def close(self) -> None:
        if self.running is not None:
            self.running.cancel()
        await self.delivery.close(0)


@pytest.fixture
async def posts(stages: Any, clock: ManualClock) -> AsyncIterator[Callable[..., Awaitable[Post]]]:
    """`await posts(store, behave, abilities)`; the delivery runs unless `start` is false."""
    opened: list[Post] = []

    async def open_post(
        store: Store,
        behave: Any = None,
        abilities: Abilities | None = None,
        *,
        channel: MemoryChannel | None = None,
        start: bool = True,
        **more: Any,
    ) -> Post:
        post = Post(await stages(store, behave, **more), clock, channel or MemoryChannel(abilities))
        opened.append(post)
        if start:
            post.start()
        return post

    yield open_post
    for post in opened:
        await post.close()

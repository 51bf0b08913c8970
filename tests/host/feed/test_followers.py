"""Followers of events: every event once or again, in order, over restarts; none for nobody."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from bollard.host.feed.event_reader import EventReader
from bollard.host.feed.event_stream import EventStreams
from bollard.host.feed.feed_event import FeedEvent, Selection
from bollard.host.feed.followers import POSITION, Followers
from bollard.host.log.entries import Entry
from bollard.host.store.rows import KeptChange, PutKept

PATIENCE_S = 60.0
FAILURES = Selection(types=frozenset({"run.failed"}))
EVERYTHING = Selection()
FINISHED = Selection(types=frozenset({"run.completed"}))


class Collector:
    """Wants what a test says, and remembers what came."""

    name = "tests"

    def __init__(self, wants: Selection | None) -> None:
        self.wants = wants
        self.came: list[FeedEvent] = []
        self.stored = 0
        self.arrival = asyncio.Condition()

    def selection(self, workspace: str) -> Selection | None:
        return self.wants

    async def take(self, workspace: str, events: Sequence[FeedEvent]) -> Sequence[KeptChange]:
        async with self.arrival:
            self.came.extend(events)
            self.arrival.notify_all()
        return ()

    def taken(self, workspace: str) -> None:
        self.stored = len(self.came)

    async def until(self, count: int) -> list[str]:
        async with asyncio.timeout(PATIENCE_S), self.arrival:
            await self.arrival.wait_for(lambda: len(self.came) >= count)
        return [event.type for event in self.came]


@pytest.fixture
async def following() -> AsyncIterator[Any]:
    """Start followers; all of them end with the test."""
    opened: list[tuple[Followers, asyncio.Task[None]]] = []

    def start(stage: Any, collector: Collector) -> Followers:
        followers = Followers(collector, journal=stage.journal, store=stage.store, clock=stage.clock)
        recovered = asyncio.Event()
        recovered.set()
        opened.append((followers, asyncio.create_task(followers.run(recovered))))
        return followers

    yield start
    for followers, task in opened:
        task.cancel()
        await followers.close()


async def answers(worker: Any, run: Any) -> None:
    await run.emit("message.completed", {"message": {"role": "assistant", "content": "done"}})
    await worker.complete(run)


async def begin(stage: Any, followers: Followers) -> None:
    """As a repository does: the position is in the commit that makes the consumer want events."""
    await stage.journal.commit(Entry(keeps=list(await followers.beginning("default"))))
    followers.refresh("default")


async def test_events_come_in_the_order_of_the_log(store: Any, stages: Any, following: Any) -> None:
    stage, collector = await stages(store, answers), Collector(EVERYTHING)
    followers = following(stage, collector)
    await stage.ended(await stage.say("before"))
    await begin(stage, followers)
    for text in ("one", "two"):
        await stage.ended(await stage.say(text))
    types = await collector.until(4)
    assert types == ["message.received", "run.completed"] * 2
    positions = [event.position for event in collector.came]
    assert positions == sorted(positions)
    assert [event.data.get("answer") for event in collector.came if event.type == "run.completed"] == ["done", "done"]


async def test_a_later_incarnation_continues_after_the_stored_position(store: Any, stages: Any, following: Any) -> None:
    stage, first = await stages(store, answers), Collector(EVERYTHING)
    followers = following(stage, first)
    await begin(stage, followers)
    await stage.ended(await stage.say("one"))
    await first.until(2)
    async with asyncio.timeout(PATIENCE_S):
        while first.stored < 2:  # noqa: ASYNC110 -- the commit of the position tells nobody
            await asyncio.sleep(0.002)
    await followers.close()
    missed = await stage.say("while nobody follows")
    await stage.ended(missed)
    second = Collector(EVERYTHING)
    following(stage, second)
    assert await second.until(2) == ["message.received", "run.completed"]
    assert {event.run_id for event in second.came} == {missed}


async def test_an_event_whose_position_was_not_stored_comes_again_under_the_same_id(
    store: Any, stages: Any, following: Any
) -> None:
    stage, first = await stages(store, answers), Collector(EVERYTHING)
    followers = following(stage, first)
    await begin(stage, followers)
    before = store.all_kept(POSITION)
    await stage.ended(await stage.say("one"))
    await first.until(2)
    await followers.close()
    await stage.ended(await stage.say("two"))  # behind a position that is being stored
    with store.write() as transaction:  # as a crash before the commit of the position leaves it
        transaction.keep([PutKept(before[0])])
    second = Collector(EVERYTHING)
    following(stage, second)
    await second.until(2)
    assert [event.id for event in second.came[:2]] == [event.id for event in first.came[:2]]


async def test_a_commit_wakes_nobody_without_a_follower_and_only_followers_of_its_types(
    memory_store: Any, stages: Any
) -> None:
    stage = await stages(memory_store, answers)
    follow = stage.journal.watch.follow
    ended, artifact = frozenset({"run.ended"}), frozenset({"artifact.created"})
    with follow("default", ended) as ends, follow("default", artifact) as artifacts, follow("other", ended) as others:
        await stage.ended(await stage.say("one"))
        async with asyncio.timeout(PATIENCE_S):
            await ends.wait()
        assert not artifacts.is_set()
        assert not others.is_set()
    assert not stage.journal.watch._followers


async def test_nothing_is_read_or_stored_for_a_consumer_that_wants_nothing(
    memory_store: Any, stages: Any, following: Any
) -> None:
    stage, collector = await stages(memory_store, answers), Collector(None)
    followers = following(stage, collector)
    followers.refresh("default")
    await stage.ended(await stage.say("one"))
    assert memory_store.all_kept(POSITION) == []
    assert not stage.journal.watch._followers
    collector.wants = FAILURES
    await begin(stage, followers)
    assert [row.workspace for row in memory_store.all_kept(POSITION)] == ["default"]
    assert collector.came == []


async def test_a_stream_has_every_event_after_its_first_batch(store: Any, stages: Any) -> None:
    stage = await stages(store, answers)

    async def sees(event: FeedEvent) -> bool:
        return True

    async with contextlib.aclosing(
        EventStreams(EventReader(store), stage.journal).read("default", None, FINISHED, sees)
    ) as batches:
        assert await anext(batches) == []
        await stage.ended(await stage.say("at once"))
        async with asyncio.timeout(PATIENCE_S):
            assert [record.type for record in await anext(batches)] == ["run.completed"]

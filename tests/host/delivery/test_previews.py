"""Previews: one message at the channel, edited at its rate, complete at the end."""

import asyncio
import threading
import time
from typing import Any

import pytest
from tests.doubles.memory_channel import MemoryChannel

from bollard.host.agents.policies import AgentPolicy, DeliveryPolicy
from bollard.host.channels.channel import Abilities, DeliveryUnknown, NotDelivered
from bollard.host.channels.content_filter import ContentFilter
from bollard.host.channels.limits import LONG_TEXT_CHARACTERS

PATIENCE_S = 120.0
STREAMS = Abilities(dedupe="native", supports_streaming=True, supports_edit=True, edits_per_s=1.0)
STREAMS_RARELY = Abilities(dedupe="native", supports_streaming=True, supports_edit=True, edits_per_s=1 / 60)
"""For messages that must be complete before their preview is due, on a machine of any speed."""
STREAMS_ONCE = Abilities(dedupe="none", supports_streaming=True, supports_edit=True, edits_per_s=1.0)


class Writer:
    """A runner that sends the text of the test on demand."""

    def __init__(self) -> None:
        self.run: Any = None
        self.worker: Any = None
        self.there = asyncio.Event()

    async def __call__(self, worker: Any, run: Any) -> None:
        self.worker, self.run = worker, run
        self.there.set()

    async def says(self, text: str, **more: Any) -> None:
        await self.there.wait()
        await self.run.emit("message.delta", {"chunk": {"role": "assistant", "content": text}, **more})

    async def ends(self) -> None:
        await self.worker.complete(self.run)


async def moment(loop_time: Any, post: Any, condition: Any) -> None:
    """Advance time until the condition holds: pending writes set their timers later."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up_at, (post.channel.tried, post.statuses)
        await asyncio.sleep(0.01)
        loop_time.advance(0.1)


async def test_a_message_is_shown_once_and_edited_at_the_channels_rate(store: Any, posts: Any, loop_time: Any) -> None:
    writer = Writer()
    post = await posts(store, writer, STREAMS)
    await post.say()
    await writer.says("Once ")
    await moment(loop_time, post, lambda: post.channel.texts == ["Once "])
    for word in ("upon ", "a ", "time"):
        await writer.says(word)
    await moment(loop_time, post, lambda: post.channel.texts == ["Once upon a time"])
    await writer.says(", the end.")
    await writer.ends()
    await moment(loop_time, post, lambda: sorted(post.statuses) == ["sent", "sent"])
    assert post.channel.texts == ["Once upon a time, the end."]
    assert len(post.channel.tried) < 6, "words that come together are one edit"
    assert len({each.key for each in post.channel.tried}) == len(post.channel.tried)


async def test_the_filter_sees_the_end_of_a_word_that_does_not_fit_into_the_preview(
    memory_store: Any, posts: Any, loop_time: Any
) -> None:
    writer = Writer()
    able = Abilities(dedupe="native", supports_streaming=True, supports_edit=True, max_message_size=16)
    post = await posts(memory_store, writer, able)
    post.channel.filter_out = ContentFilter(words=("strawberrystrawberry",), outcome="mask")
    await post.say()
    await writer.says("strawberrystrawberry")
    await moment(loop_time, post, lambda: post.channel.texts == ["*" * 16])
    await writer.ends()
    await moment(loop_time, post, lambda: sorted(post.statuses) == ["sent", "sent"])
    assert post.channel.texts == ["*" * 16, "*" * 4]


class FilteringChannel(MemoryChannel):
    """Notes in which threads its filter is used."""

    def __init__(self, abilities: Abilities) -> None:
        self.threads: set[int] = set()
        super().__init__(abilities)

    @property
    def filter_out(self) -> ContentFilter | None:
        self.threads.add(threading.get_ident())
        return ContentFilter(words=("strawberry",), outcome="mask")

    @filter_out.setter
    def filter_out(self, rule: ContentFilter | None) -> None: ...


async def test_a_long_preview_is_filtered_beside_the_host(memory_store: Any, posts: Any, loop_time: Any) -> None:
    writer = Writer()
    channel = FilteringChannel(STREAMS)
    post = await posts(memory_store, writer, channel=channel)
    await post.say()
    await writer.says("long " * LONG_TEXT_CHARACTERS + "strawberry")
    await moment(loop_time, post, lambda: any(text.endswith(" **********") for text in channel.texts))
    assert threading.get_ident() not in channel.threads
    await writer.ends()


async def test_a_message_that_is_complete_at_once_is_sent_once(memory_store: Any, posts: Any) -> None:
    writer = Writer()
    post = await posts(memory_store, writer, STREAMS_RARELY)
    await post.say()
    await writer.says("quick")
    await writer.ends()
    await post.until(lambda: post.statuses == ["sent"])
    assert [each.edit_of for each in post.channel.tried] == [None]


async def test_a_message_that_outgrows_its_preview_continues_in_parts(
    memory_store: Any, posts: Any, loop_time: Any
) -> None:
    writer = Writer()
    able = Abilities(dedupe="native", supports_streaming=True, supports_edit=True, max_message_size=20)
    post = await posts(memory_store, writer, able)
    await post.say()
    await writer.says("First sentence. ")
    await moment(loop_time, post, lambda: post.channel.texts == ["First sentence. "])
    await writer.says("Second sentence.")
    await writer.ends()
    await moment(loop_time, post, lambda: post.statuses == ["sent", "sent"])
    assert post.channel.texts == ["First sentence.", "Second sentence."]


async def test_a_failed_preview_does_not_lose_the_message(memory_store: Any, posts: Any, loop_time: Any) -> None:
    writer = Writer()
    post = await posts(memory_store, writer, STREAMS)
    post.channel.fail(NotDelivered("no", retryable=False))
    await post.say()
    await writer.says("Hello")
    await moment(loop_time, post, lambda: post.statuses == ["failed"])
    await writer.ends()
    await post.until(lambda: post.statuses == ["failed", "sent"])
    assert post.channel.texts == ["Hello"]


@pytest.mark.parametrize(
    ("abilities", "texts"), [(STREAMS, ["Hello world"]), (STREAMS_ONCE, ["Hello ", "Hello world"])]
)
async def test_an_unconfirmed_preview_is_found_again_if_the_channel_supports_it(
    memory_store: Any, posts: Any, loop_time: Any, abilities: Abilities, texts: list[str]
) -> None:
    writer = Writer()
    post = await posts(memory_store, writer, abilities)
    post.channel.fail(DeliveryUnknown("no answer"))
    await post.say()
    await writer.says("Hello ")
    await moment(loop_time, post, lambda: post.channel.tried)
    await writer.says("world")
    await writer.ends()
    await moment(loop_time, post, lambda: post.statuses and post.statuses[-1] == "sent")
    assert post.channel.texts == texts


async def test_after_a_crash_the_preview_is_edited_to_the_recorded_message(
    memory_store: Any, posts: Any, loop_time: Any
) -> None:
    writer, channel = Writer(), MemoryChannel(STREAMS)
    first = await posts(memory_store, writer, channel=channel)
    run_id = await first.say()
    await writer.says("Half a sen")
    await moment(loop_time, first, lambda: channel.texts == ["Half a sen"])
    await first.until(lambda: first.statuses == ["shown"])
    await first.close()
    second = await posts(memory_store, channel=channel, incarnation="i2", start=False)
    second.recovered.clear()
    second.start()
    await second.stage.core.startup_recovery.run()
    second.recovered.set()
    await second.until(lambda: second.statuses == ["sent"] * 3)
    assert (second.stage.row(run_id).reason, channel.texts) == ("host.lost", ["Half a sen"])
    assert channel.failures == ["host.lost"]


async def test_a_preview_waits_for_earlier_messages_to_arrive(memory_store: Any, posts: Any, loop_time: Any) -> None:
    writer = Writer()
    post = await posts(memory_store, writer, STREAMS_RARELY)
    post.channel.shut()
    await post.say("first")
    await writer.says("one")
    await writer.ends()
    await post.until(lambda: post.channel.tried)
    writer.there.clear()
    await post.say("second", conversation="other")
    await writer.says("two ")
    for _ in range(30):
        await asyncio.sleep(0.001)
        loop_time.advance(5)
    assert [each.text for each in post.channel.tried] == ["one"]
    post.channel.lift()
    await writer.says("three")
    await writer.ends()
    await moment(loop_time, post, lambda: post.statuses == ["sent", "sent"])
    assert post.channel.texts == ["one", "two three"]


async def test_an_agent_without_streaming_shows_no_preview(memory_store: Any, posts: Any, loop_time: Any) -> None:

    writer = Writer()
    post = await posts(memory_store, writer, STREAMS)
    post.stage.agent(policy=AgentPolicy(delivery=DeliveryPolicy(streaming=False)))
    await post.say()
    await writer.says("Hello")
    loop_time.advance(5)
    await asyncio.sleep(0.01)
    assert post.channel.tried == []
    await writer.ends()
    await post.until(lambda: post.statuses == ["sent"])


@pytest.mark.parametrize("planned", [[], [NotDelivered("slow down", retryable=True, retry_after_s=3600.0)]])
async def test_a_complete_message_does_not_wait_for_the_edit_interval(
    memory_store: Any, posts: Any, loop_time: Any, planned: list[Any]
) -> None:
    """A channel of very few edits, or one that asked for an hour of silence, gets the whole message at once."""
    writer = Writer()
    rare = 1 / 7200 if not planned else 1.0
    able = Abilities(dedupe="native", supports_streaming=True, supports_edit=True, edits_per_s=rare)
    post = await posts(memory_store, writer, able)
    await post.say()
    await writer.says("Once ")
    if planned:
        await moment(loop_time, post, lambda: post.channel.texts == ["Once "])
        post.channel.fail(*planned)
        await writer.says("upon ")
        await moment(loop_time, post, lambda: len(post.channel.tried) == 2)
    await writer.says("a time.")
    await writer.ends()
    await moment(loop_time, post, lambda: set(post.statuses) == {"sent"})
    assert post.channel.texts[-1].endswith("a time.")

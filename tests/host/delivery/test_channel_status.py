"""The status of a channel: a record when it begins to fail, and one when it works again."""

from typing import Any

from tests.host.delivery.test_delivery import answers

from bollard.host.channels.channel import NotDelivered
from bollard.host.log.records import data_of
from bollard.host.store.queries import RecordQuery


def statuses(post: Any) -> list[Any]:
    kinds = frozenset({"channel.status_changed"})
    query = RecordQuery(workspace="default", above=0, below=1 << 53, limit=100, forward=True, types=kinds)
    return [data_of(row) for row in post.stage.store.records_among(query)]


async def test_a_channel_that_fails_and_works_again_changes_its_status_twice(
    store: Any, posts: Any, loop_time: Any
) -> None:
    post = await posts(store, answers)
    await post.say("first")
    await post.until(lambda: post.statuses == ["sent"])
    assert statuses(post) == []
    post.channel.fail(*[NotDelivered("the line is down", retryable=True)] * 2)
    await post.say("second")
    await loop_time.until(lambda: post.statuses == ["sent", "sent"], 5.0)
    degraded = {"channel_id": "chat", "status": "degraded", "reason": "the line is down"}
    assert statuses(post) == [degraded, {"channel_id": "chat", "status": "connected"}]


async def test_a_channel_that_is_deleted_during_a_send_has_no_status(memory_store: Any, posts: Any) -> None:
    post = await posts(memory_store, answers)
    post.channel.shut()
    post.channel.fail(NotDelivered("the line is down", retryable=False))
    await post.say()
    await post.until(lambda: post.channel.tried)
    post.book._live.clear()
    post.delivery.forget("default", "chat")
    post.channel.lift()
    await post.until(lambda: post.statuses == ["failed"])
    assert (statuses(post), post.delivery.degraded("default")) == ([], [])


async def test_a_channel_recovers_after_a_restart_too(memory_store: Any, posts: Any) -> None:
    post = await posts(memory_store, answers)
    post.channel.fail(NotDelivered("no such room", retryable=False))
    await post.say("lost")
    await post.until(lambda: post.statuses == ["failed"])
    await post.close()
    again = await posts(memory_store, answers, incarnation="i2")
    await again.say("found", source_id="later")
    await again.until(lambda: again.statuses == ["failed", "sent"])
    assert [each["status"] for each in statuses(again)] == ["degraded", "connected"]

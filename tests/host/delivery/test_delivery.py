"""Delivery of messages to channels: in order, as often as the channel allows, with each outcome on disk."""

from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_channel import MemoryChannel

from bollard.host.agents.policies import AgentPolicy, DeliveryPolicy
from bollard.host.channels.channel import Abilities, Delivered, DeliveryUnknown, NotDelivered
from bollard.host.channels.content_filter import ContentFilter
from bollard.host.delivery import outbox as delivery
from bollard.host.delivery.retry import wait_before
from bollard.host.limits import DELIVERY_AGE_S, DELIVERY_ATTEMPTS, DELIVERY_RETRY_AFTER_S
from bollard.host.log.rebuild import rebuild
from bollard.host.runs.event import EventDetails, ReplyRoute

NATIVE = Abilities(dedupe="native")
ONCE = Abilities(dedupe="none")
CENTURY_S = 100 * 365 * 24 * 3600


async def answers(worker: Any, run: Any) -> None:
    """Repeats its input, as a whole message."""
    text = run.request["context"]["input"].get("text", "nothing")
    await run.emit("message.completed", {"message": {"role": "assistant", "content": f"re: {text}"}})
    await worker.complete(run)


def saying(*messages: Any) -> Any:
    async def behave(worker: Any, run: Any) -> None:
        for message in messages:
            await run.emit("message.completed", {"message": message})
        await worker.complete(run)

    return behave


async def test_an_answer_to_a_channel_event_is_sent_through_that_channel(store: Any, posts: Any) -> None:
    post = await posts(store, answers)
    run_id = await post.say("hello")
    await post.until(lambda: post.statuses == ["sent"])
    (message,) = post.channel.messages.values()
    assert (message.text, message.target, message.run_id) == ("re: hello", "room-1", run_id)
    (row,) = post.rows()
    assert (row.messages, row.channel, row.reason) == (b'["m1"]', "chat", None)


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [("block", "The answer was withheld by the content filter of this channel."), ("mask", f"say: bananas {'*' * 20}")],
)
async def test_the_filter_of_a_channel_sees_a_long_message_before_it_is_split(
    memory_store: Any, posts: Any, outcome: Any, shown: str
) -> None:
    word = "strawberrystrawberry"
    able = Abilities(dedupe="native", max_message_size=18)
    post = await posts(memory_store, saying({"role": "assistant", "content": f"say: bananas {word}"}), able)
    post.channel.filter_out = ContentFilter(words=(word,), outcome=outcome)
    await post.say()
    await post.until(lambda: post.statuses == ["sent"])
    assert len(post.channel.texts) > 1
    assert "".join(post.channel.texts).replace(" ", "") == shown.replace(" ", "")


async def test_a_word_that_a_split_makes_is_not_filtered(memory_store: Any, posts: Any) -> None:
    able = Abilities(dedupe="native", max_message_size=16)
    post = await posts(memory_store, saying({"role": "assistant", "content": "x" * 16 + "cat"}), able)
    post.channel.filter_out = ContentFilter(words=("cat",), outcome="mask")
    await post.say()
    await post.until(lambda: post.statuses == ["sent"])
    assert post.channel.texts == ["x" * 16, "cat"]


async def test_an_answer_to_an_event_without_a_channel_is_not_delivered(memory_store: Any, posts: Any) -> None:
    post = await posts(memory_store, answers)
    run_id = await post.stage.say("hello")
    await post.stage.ended(run_id)
    assert (post.rows(), post.channel.tried) == ([], [])


async def test_an_event_without_a_reply_target_uses_the_target_of_the_policy(memory_store: Any, posts: Any) -> None:
    post = await posts(memory_store, answers)
    post.stage.agent(policy=AgentPolicy(delivery=DeliveryPolicy(target="chat:ops")))
    await post.stage.say("alarm", trigger="webhook", event_type="alarm.raised")
    await post.until(lambda: post.statuses == ["sent"])
    (message,) = post.channel.messages.values()
    assert (message.text, message.target) == ("re: alarm", "ops")
    run_id = await post.stage.say("a caller of the API reads the stream", trigger="api")
    await post.stage.ended(run_id)
    assert len(post.rows()) == 1


async def test_an_agent_without_replies_delivers_no_message(memory_store: Any, posts: Any) -> None:
    post = await posts(memory_store, answers)
    post.stage.agent(policy=AgentPolicy(delivery=DeliveryPolicy(reply=False)))
    await post.stage.ended(await post.say())
    assert post.rows() == []


async def test_only_texts_of_the_assistant_are_delivered(memory_store: Any, posts: Any) -> None:
    messages = [
        {"role": "tool", "content": "4", "tool_call_id": "c"},
        {"role": "assistant", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": ""},
    ]
    post = await posts(memory_store, saying(*messages))
    await post.say()
    await post.until(lambda: sorted(post.statuses) == ["failed", "sent"])
    assert post.channel.texts == ["one\ntwo"]
    assert post.rows()[1].reason == "the message has no content that can be sent"


async def test_messages_of_one_target_keep_their_order_and_other_targets_do_not_wait(
    memory_store: Any, posts: Any
) -> None:
    post = await posts(memory_store, answers)
    post.channel.fail(NotDelivered("busy", retryable=True, retry_after_s=0.05))
    for number in range(5):
        await post.stage.ended(await post.say(str(number), conversation=f"c{number}"))
    await post.stage.ended(await post.say("else", "room-2"))
    await post.until(lambda: post.statuses == ["sent"] * 6)
    told = [message.text for message in post.channel.messages.values() if message.target == "room-1"]
    assert told == [f"re: {number}" for number in range(5)]


async def test_a_long_message_is_sent_in_parts(memory_store: Any, posts: Any) -> None:
    text = "First sentence. Second sentence. Third sentence."
    abilities = Abilities(dedupe="native", max_message_size=20)
    post = await posts(memory_store, saying({"role": "assistant", "content": text}), abilities)
    await post.say()
    await post.until(lambda: post.statuses == ["sent"])
    assert post.channel.texts == ["First sentence.", "Second sentence.", "Third sentence."]
    assert [(each.part, each.parts) for each in post.channel.tried] == [(0, 3), (1, 3), (2, 3)]
    assert post.rows()[0].messages == b'["m1","m2","m3"]'


async def test_a_temporary_failure_is_retried_with_the_same_key(memory_store: Any, posts: Any, loop_time: Any) -> None:
    post = await posts(memory_store, answers)
    post.channel.fail(NotDelivered("busy", retryable=True), NotDelivered("busy", retryable=True))
    await post.stage.ended(await post.say())
    await loop_time.until(lambda: post.statuses == ["sent"], 10)
    assert len({each.key for each in post.channel.tried}) == 1
    assert (len(post.channel.tried), post.delivery.counts.retried) == (3, 2)


async def test_a_receiver_is_not_tried_before_the_time_that_it_names(
    memory_store: Any, posts: Any, clock: ManualClock
) -> None:
    post = await posts(memory_store, answers)
    post.channel.fail(NotDelivered("busy", retryable=True, retry_after_s=900.0))
    await post.say()
    await post.until(lambda: post.rows() and post.rows()[0].attempts == 1)
    assert post.rows()[0].due_ms - clock.now_ms() == 900_000
    waits = [wait_before(attempts, None) for attempts in range(1, DELIVERY_ATTEMPTS + 1)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, None]
    assert wait_before(7, 5.0) == 64
    assert wait_before(1, 1e9) == DELIVERY_RETRY_AFTER_S


async def test_retries_are_bounded_and_then_the_delivery_fails(memory_store: Any, posts: Any, loop_time: Any) -> None:
    post = await posts(memory_store, answers)
    post.channel.fail(*[NotDelivered("busy", retryable=True)] * DELIVERY_ATTEMPTS)
    await post.stage.ended(await post.say("first"))
    await post.stage.ended(await post.say("second", conversation="other"))
    await loop_time.until(lambda: post.statuses == ["failed", "sent"], 1000)
    assert len(post.channel.tried) == DELIVERY_ATTEMPTS + 1
    assert "busy" in (post.rows()[0].reason or "")
    assert post.channel.texts == ["re: second"]


async def test_a_permanent_failure_is_not_retried(memory_store: Any, posts: Any) -> None:
    post = await posts(memory_store, answers)
    post.channel.fail(NotDelivered("no such room", retryable=False))
    await post.say()
    await post.until(lambda: post.statuses == ["failed"])
    assert (len(post.channel.tried), post.rows()[0].reason) == (1, "no such room")


@pytest.mark.parametrize(("abilities", "status", "tries"), [(NATIVE, "sent", 2), (ONCE, "unknown", 1)])
async def test_an_unconfirmed_message_is_retried_only_with_native_dedupe(
    memory_store: Any, posts: Any, loop_time: Any, abilities: Abilities, status: str, tries: int
) -> None:
    post = await posts(memory_store, answers, abilities)
    post.channel.fail(DeliveryUnknown("no answer"))
    await post.stage.ended(await post.say())
    await loop_time.until(lambda: post.statuses == [status], 10)
    assert (len(post.channel.tried), post.channel.texts) == (tries, ["re: hello"])


async def test_without_dedupe_the_start_of_a_delivery_is_on_disk_before_the_send(memory_store: Any, posts: Any) -> None:
    post = await posts(memory_store, answers, ONCE)
    post.channel.shut()
    await post.say()
    await post.until(lambda: post.channel.tried)
    assert post.statuses == ["started"]
    post.channel.lift()
    await post.until(lambda: post.statuses == ["sent"])


async def test_a_missing_channel_fails_its_deliveries(memory_store: Any, posts: Any) -> None:
    post = await posts(memory_store, answers)
    run_id = await post.stage.say("x", trigger="platform", reply=post.route().__class__(channel="mail", target="t"))
    await post.stage.ended(run_id)
    await post.until(lambda: post.statuses == ["failed"])
    assert "mail" in (post.rows()[0].reason or "")


async def test_a_channel_that_raises_does_not_end_the_outbox(memory_store: Any, posts: Any, loop_time: Any) -> None:
    class Broken(MemoryChannel):
        async def send(self, outgoing: Any) -> Delivered:
            if not self.tried:
                self.tried.append(outgoing)
                raise RuntimeError("a bug")
            return await super().send(outgoing)  # type: ignore[return-value]

    post = await posts(memory_store, answers, channel=Broken())
    await post.stage.ended(await post.say())
    await loop_time.until(lambda: post.statuses == ["sent"], 1000)


async def test_a_failed_run_sends_a_notice_to_its_channel(store: Any, posts: Any) -> None:
    async def fails(worker: Any, run: Any) -> None:
        await run.emit("message.completed", {"message": {"role": "assistant", "content": "I begin"}})
        await run.emit("run.failed", {"code": "runner.error", "error": "as planned", "retryable": False})
        worker.end.finish_run(run)

    post = await posts(store, fails)
    run_id = await post.say()
    await post.until(lambda: post.statuses == ["sent", "sent"])
    assert (post.channel.texts, post.channel.failures) == (["I begin"], ["runner.error"])
    chinese = await post.say(details=EventDetails(locale="zh-CN"))
    await post.until(lambda: post.statuses == ["sent"] * 4)
    assert [message.text for message in post.channel.messages.values() if message.failed] == [
        f"The agent could not answer because of an error. Run: {run_id}",
        f"智能体出错，未能回答。运行：{chinese}",
    ]


async def test_a_stopped_run_sends_no_notice(memory_store: Any, posts: Any) -> None:
    async def waits(worker: Any, run: Any) -> None:
        await worker.until(lambda: worker.cancels)
        worker.end.finish_run(run)

    post = await posts(memory_store, waits)
    run_id = await post.say()
    await post.stage.dispatcher.cancel(run_id, "cancelled")
    await post.stage.ended(run_id)
    assert (post.stage.row(run_id).status, post.rows()) == ("cancelled", [])


# --- restarts ---


async def test_a_queued_delivery_is_sent_after_a_restart(store: Any, posts: Any) -> None:
    first = await posts(store, answers, start=False)
    await first.stage.ended(await first.say("hello"))
    assert first.statuses == ["queued"]
    await first.stage.close()
    second = await posts(store, answers, incarnation="i2")
    await second.until(lambda: second.statuses == ["sent"])
    assert second.channel.texts == ["re: hello"]


async def test_a_clock_set_back_does_not_delay_a_retry_after_a_restart(
    memory_store: Any, posts: Any, clock: ManualClock, loop_time: Any
) -> None:
    clock.jump(CENTURY_S)
    first = await posts(memory_store, answers)
    first.channel.fail(NotDelivered("busy", retryable=True))
    await first.say("hello")
    await first.until(lambda: [row.attempts for row in first.rows()] == [1])
    await first.close()
    await first.stage.close()
    clock.jump(-CENTURY_S)
    second = await posts(memory_store, answers, incarnation="i2")
    await loop_time.until(lambda: second.statuses == ["sent"], DELIVERY_RETRY_AFTER_S)  # no steps make a century


@pytest.mark.parametrize(("abilities", "status", "tries"), [(NATIVE, "sent", 2), (ONCE, "unknown", 1)])
async def test_deliveries_in_flight_at_a_crash_follow_the_dedupe_of_the_channel(
    memory_store: Any, posts: Any, abilities: Abilities, status: str, tries: int
) -> None:
    channel = MemoryChannel(abilities)
    first = await posts(memory_store, answers, channel=channel)
    channel.shut()
    await first.say()
    await first.until(lambda: channel.tried)
    await first.close()  # as after a crash: the outcome has no record
    channel.lift()
    second = await posts(memory_store, answers, channel=channel, incarnation="i2")
    await second.until(lambda: second.statuses == [status])
    assert len(channel.tried) == tries
    assert len(channel.messages) <= 1


async def test_parts_already_sent_are_not_sent_again_after_a_restart(memory_store: Any, posts: Any) -> None:
    text = "First sentence. Second sentence."
    channel = MemoryChannel(Abilities(dedupe="native", max_message_size=20))
    channel.fail(NotDelivered("x", retryable=True))
    first = await posts(memory_store, saying({"role": "assistant", "content": text}), channel=channel)
    await first.say()
    await first.until(lambda: first.rows() and first.rows()[0].attempts == 1)
    await first.close()
    channel.tried.clear()
    channel.fail()
    second = await posts(memory_store, channel=channel, incarnation="i2")
    second.stage.clock.advance(60)
    await second.until(lambda: second.statuses == ["sent"])
    assert channel.texts == ["First sentence.", "Second sentence."]


async def test_a_rebuilt_outbox_is_the_same(memory_store: Any, posts: Any) -> None:

    post = await posts(memory_store, answers)
    post.channel.fail(NotDelivered("no", retryable=False))
    await post.say("one")
    await post.say("two", conversation="c2")
    await post.until(lambda: post.statuses == ["failed", "sent"])
    before = memory_store.dump_projections()["outbox"]
    rebuild(memory_store)
    assert memory_store.dump_projections()["outbox"] == before


async def test_an_unreachable_channel_fills_only_its_own_window(
    store: Any, posts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "DELIVERIES_OF_CHANNEL", 4)
    monkeypatch.setattr(delivery, "DELIVERIES_OF_CHANNEL_AT_ONCE", 2)
    monkeypatch.setattr(delivery, "DELIVERIES_AT_ONCE", 3)
    post = await posts(store, answers, NATIVE)
    other = MemoryChannel(NATIVE)
    post.book.put("default", "other", other)
    post.channel.shut()
    for number in range(10):
        await post.stage.ended(await post.say(str(number), f"room-{number % 3}", conversation=f"c{number}"))
    assert post.delivery.waiting <= 4
    assert len(post.channel.tried) <= 2
    route = ReplyRoute(channel="other", target="t")
    await post.stage.ended(await post.stage.say("else", trigger="platform", reply=route))
    await post.until(lambda: other.texts == ["re: else"])
    post.channel.lift()
    await post.until(lambda: post.statuses == ["sent"] * 11)
    for room in range(3):
        told = [message.text for message in post.channel.messages.values() if message.target == f"room-{room}"]
        assert told == [f"re: {number}" for number in range(10) if number % 3 == room]
    assert len(post.channel.tried) == 10
    await post.until(lambda: post.delivery.waiting == 0)


async def test_an_answer_older_than_a_day_is_not_sent(memory_store: Any, posts: Any, clock: ManualClock) -> None:
    post = await posts(memory_store, answers, start=False)
    await post.stage.ended(await post.say("old"))
    clock.advance(DELIVERY_AGE_S + 1)
    await post.stage.ended(await post.say("new"))
    post.start()
    await post.until(lambda: post.statuses == ["failed", "sent"])
    assert post.rows()[0].reason == "the message waited too long"
    assert post.channel.texts == ["re: new"]

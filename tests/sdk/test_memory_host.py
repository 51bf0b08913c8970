"""The in-memory host: its runs, from the outside."""

import asyncio

import pytest
from pydantic import BaseModel, SecretStr

from bollard.protocol import DeliveryContext, SubjectContext, limits
from bollard.sdk import AgentAPIException, DeclarationError, Result, RunContext, runner
from bollard.sdk.testing import ManualClock, MemoryHost

pytestmark = pytest.mark.anyio


@runner(label="Echo")
async def echo(ctx: RunContext):
    yield ctx.delta("you said: ")
    yield ctx.delta(ctx.input.text or "")


async def test_a_run_returns_its_text_its_messages_and_numbered_results():
    outcome = await MemoryHost().run(echo, "hi")
    assert (outcome.status, outcome.code, outcome.error) == ("completed", None, None)
    assert outcome.text == "you said: hi"
    assert [message.content for message in outcome.messages] == ["you said: hi"]
    assert [(result.sequence, result.type) for result in outcome.results] == [
        (1, "message.delta"),
        (2, "message.delta"),
        (3, "run.completed"),
    ]
    assert {result.run_id for result in outcome.results} == {outcome.run_id}


async def test_each_run_of_a_host_has_its_own_id():
    host = MemoryHost()
    first, second = await asyncio.gather(host.run(echo, "a"), host.run(echo, "b"))
    assert first.run_id != second.run_id
    assert (first.text, second.text) == ("you said: a", "you said: b")


async def test_the_context_has_the_values_of_the_test():
    seen: list[RunContext] = []

    @runner()
    async def look(ctx: RunContext):
        seen.append(ctx)
        yield "x"

    await MemoryHost().run(
        look,
        "hi",
        config={"a": 1},
        event_type="reaction.added",
        event_data={"emoji": "+1"},
        conversation_id="c-9",
        thread_id="t-9",
        actor_id="u-9",
        actor_name="Ada",
        subject=SubjectContext(subject_type="message", subject_id="m-1"),
        delivery=DeliveryContext(surface="chat"),
        locale="zh_Hans",
        adapter_extra={"k": "v"},
        metadata={"m": 1},
        timeout_s=30,
    )
    ctx = seen[0]
    assert (ctx.event.event_type, ctx.event.data) == ("reaction.added", {"emoji": "+1"})
    assert ctx.conversation is not None
    assert (ctx.conversation.conversation_id, ctx.conversation.thread_id) == ("c-9", "t-9")
    assert ctx.actor is not None
    assert (ctx.actor.actor_id, ctx.actor.actor_name) == ("u-9", "Ada")
    assert ctx.subject is not None
    assert ctx.delivery.surface == "chat"
    assert (ctx.runtime.locale, ctx.runtime.timeout_ms) == ("zh_Hans", 30_000)
    assert ctx.adapter is not None
    assert ctx.adapter.extra == {"k": "v"}
    assert (ctx.config, ctx.metadata) == ({"a": 1}, {"m": 1})
    assert ctx.time_left is not None
    assert 29 < ctx.time_left <= 30


async def test_an_event_may_have_no_conversation_and_no_actor():
    @runner()
    async def look(ctx: RunContext):
        assert ctx.conversation is None
        assert ctx.actor is None
        return

    outcome = await MemoryHost().run(look, event_type="schedule.triggered", conversation_id=None, actor_id=None)
    assert outcome.status == "completed"


async def test_silence_is_a_failure_for_a_message_and_an_answer_for_other_events():
    @runner()
    async def silent(ctx: RunContext):
        return None

    spoken_to = await MemoryHost().run(silent, "hi")
    assert (spoken_to.status, spoken_to.code) == ("failed", "runner.no_output")
    assert (await MemoryHost().run(silent, event_type="webhook.received")).status == "completed"


async def test_a_completed_message_replaces_its_deltas():
    @runner()
    async def corrects(ctx: RunContext):
        yield ctx.delta("helo")
        yield ctx.completed("hello")
        yield ctx.delta("second", message_id="m2")
        yield ctx.delta("third, ")
        yield ctx.delta("on", message_id="m2")
        yield ctx.delta("whole")

    outcome = await MemoryHost().run(corrects, "hi")
    assert [message.content for message in outcome.messages] == ["hello", "secondon", "third, whole"]
    assert outcome.text == "hello\nsecondon\nthird, whole"


async def test_the_message_of_the_terminal_result_counts_only_without_another_one():
    @runner()
    async def one(ctx: RunContext):
        yield ctx.finish("end", "only")

    @runner()
    async def two(ctx: RunContext):
        yield ctx.completed("first")
        yield ctx.finish("end", "first again")

    assert (await MemoryHost().run(one, "hi")).text == "only"
    assert (await MemoryHost().run(two, "hi")).text == "first"


@pytest.mark.requirement("P04-15")
async def test_a_wrong_configuration_fails_the_run_before_the_runner_starts():
    class Config(BaseModel):
        limit: int

    started = []

    @runner()
    async def typed(ctx: RunContext[Config]):
        started.append(True)
        yield "x"

    outcome = await MemoryHost().run(typed, "hi", config={"limit": "many"})
    assert (outcome.status, outcome.code) == ("failed", "runner.error")
    assert "limit" in str(outcome.error)
    assert started == []


async def test_a_typed_configuration_reaches_the_runner():
    class Config(BaseModel):
        key: SecretStr

    @runner()
    async def typed(ctx: RunContext[Config]):
        yield ctx.config.key.get_secret_value()

    assert (await MemoryHost().run(typed, "hi", config={"key": "k"})).text == "k"


@pytest.mark.requirement("P05-13")
async def test_a_result_of_more_than_one_mebibyte_is_raised_and_never_truncated():
    @runner()
    async def large(ctx: RunContext):
        yield ctx.delta("x" * limits.RESULT_BYTES)

    outcome = await MemoryHost().run(large, "hi")
    assert outcome.code == "runner.error"
    assert "ResultTooLarge" in str(outcome.error)
    assert outcome.text == ""


async def test_a_result_that_is_not_json_fails_the_run():
    @runner()
    async def odd(ctx: RunContext):
        yield Result("message.delta", {"chunk": {"content": object()}})

    assert "not JSON" in str((await MemoryHost().run(odd, "hi")).error)


async def test_an_invalid_payload_has_no_effect_and_a_reason():
    @runner()
    async def odd(ctx: RunContext):
        yield Result("state.updated", {"scope": "moon", "key": "k", "value": 1})
        yield Result("weather.changed", {"to": "rain"})
        yield "ok"

    outcome = await MemoryHost().run(odd, "hi")
    assert outcome.status == "completed"
    assert [(item.result.type, item.record) for item in outcome.rejected] == [
        ("state.updated", "result.rejected"),
        ("weather.changed", "result.unknown"),
    ]
    assert "scope" in outcome.rejected[0].reason


async def test_an_invalid_failure_is_still_a_failure():
    @runner()
    async def odd(ctx: RunContext):
        yield "x"
        yield Result("run.failed", {"why": "because"})

    outcome = await MemoryHost().run(odd, "hi")
    assert (outcome.status, outcome.code) == ("failed", "runner.error")


async def test_a_runner_reads_its_own_writes():
    @runner()
    async def counter(ctx: RunContext):
        yield ctx.state("conversation", "count", 1)
        held = await ctx.api.state.get("conversation", "count")
        yield f"{held.value}"

    host = MemoryHost()
    outcome = await host.run(counter, "hi")
    assert outcome.text == "1"
    assert outcome.state["conversation"] == {"count": 1}


async def test_state_survives_the_run_and_stays_in_its_scope():
    @runner()
    async def remember(ctx: RunContext):
        yield f"{ctx.state_snapshot.conversation.get('n')}{ctx.state_snapshot.actor.get('n')}"
        yield ctx.state("conversation", "n", "c")
        yield ctx.state("actor", "n", "a")

    host = MemoryHost()
    assert (await host.run(remember, "hi")).text == "NoneNone"
    assert (await host.run(remember, "hi")).text == "ca"
    assert (await host.run(remember, "hi", conversation_id="other")).text == "Nonea"


async def test_an_artifact_needs_the_permission_to_write():
    @runner()
    async def forbidden(ctx: RunContext):
        yield ctx.artifact(content=b"abc", name="a.txt")
        yield "x"

    @runner(permissions={"artifacts": ["write", "read"]})
    async def allowed(ctx: RunContext):
        yield ctx.artifact(content=b"abc", name="a.txt", mime_type="text/plain")
        yield "x"

    refused = await MemoryHost().run(forbidden, "hi")
    assert refused.artifacts == {}
    assert "permissions" in refused.rejected[0].reason
    kept = (await MemoryHost().run(allowed, "hi")).artifacts
    assert [(item.content, item.metadata.name) for item in kept.values()] == [(b"abc", "a.txt")]


async def test_actions_and_logs_are_recorded():
    @runner()
    async def active(ctx: RunContext):
        ctx.log("pinning", hits=1)
        yield ctx.action("message.pin", {"id": "1"})
        yield "x"

    outcome = await MemoryHost().run(active, "hi")
    assert [request.action for request in outcome.actions] == ["message.pin"]
    assert outcome.logs == (("info", "pinning", {"hits": 1}),)


async def test_a_class_runner_is_created_once_per_host_and_closed_with_it():
    events = []

    @runner()
    class Keeper:
        async def start(self):
            events.append("start")

        async def run(self, ctx: RunContext):
            yield "x"

        async def close(self):
            events.append("close")

    async with MemoryHost() as host:
        await host.run(Keeper, "a")
        await host.run(Keeper, "b")
        assert events == ["start"]
    assert events == ["start", "close"]


async def test_a_class_that_fails_to_start_fails_the_run():
    @runner()
    class Broken:
        async def start(self):
            raise ConnectionError("no database")

        async def run(self, ctx: RunContext):
            yield "x"

    outcome = await MemoryHost().run(Broken, "a")
    assert (outcome.code, outcome.error) == ("runner.error", "ConnectionError: no database")


async def test_an_undecorated_function_is_refused():
    async def plain(ctx):
        yield "x"

    with pytest.raises(DeclarationError, match="@runner"):
        await MemoryHost().run(plain, "hi")


# --- live runs ---


@runner(capabilities=["interrupt"])
async def patient(ctx: RunContext):
    yield "a"
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        yield "b"
        raise


async def test_a_live_run_can_be_watched_and_cancelled():
    live = MemoryHost().start(patient, "hi")
    first = await live.result("message.delta")
    assert first.data["chunk"]["content"] == "a"
    live.cancel("revoked")
    outcome = await live.outcome()
    assert (outcome.status, outcome.code, outcome.text) == ("cancelled", "revoked", "ab")
    assert await live.outcome() is outcome


async def test_a_run_past_its_deadline_is_a_timeout():
    clock = ManualClock()
    live = MemoryHost(clock=clock).start(patient, "hi", timeout_s=10)
    await live.result("message.delta")
    clock.advance(9.9)
    assert not [result for result in live.results if result.type == "run.failed"]
    clock.advance(0.2)
    outcome = await live.outcome()
    assert (outcome.status, outcome.code) == ("timeout", "runner.timeout")


async def test_the_cancel_reason_prevails_over_a_completed_result():
    @runner()
    async def smooth(ctx: RunContext):
        yield "a"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield ctx.finish()

    live = MemoryHost().start(smooth, "hi")
    await live.result("message.delta")
    live.cancel()
    outcome = await live.outcome()
    assert outcome.status == "cancelled"
    assert outcome.results[-1].type == "run.completed"


async def test_a_runner_that_ignores_its_cancel_is_abandoned_after_the_grace():
    clock = ManualClock()
    release = asyncio.Event()

    @runner()
    async def deaf(ctx: RunContext):
        yield "a"
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        yield "b"

    live = MemoryHost(clock=clock).start(deaf, "hi")
    await live.result("message.delta")
    live.cancel()
    clock.advance(limits.CANCEL_GRACE_S)
    outcome = await live.outcome()
    assert (outcome.status, outcome.text) == ("cancelled", "a")
    assert [result.type for result in outcome.results] == ["message.delta"]
    release.set()


async def test_cancelling_a_run_that_has_ended_changes_nothing():
    live = MemoryHost().start(echo, "hi")
    outcome = await live.outcome()
    live.cancel()
    assert (await live.outcome()) is outcome
    assert outcome.status == "completed"


async def test_waiting_for_a_missing_result_raises_at_the_end_of_the_run():
    live = MemoryHost().start(echo, "hi")
    with pytest.raises(Exception, match=r"ended \(completed\) before it sent another state.updated"):
        await live.result("state.updated")


async def test_an_ended_run_is_refused_for_ever():
    kept: list[RunContext] = []

    @runner()
    async def leaks(ctx: RunContext):
        kept.append(ctx)
        yield "x"

    await MemoryHost().run(leaks, "hi")
    with pytest.raises(AgentAPIException) as caught:
        await kept[0].api.host.info()
    assert caught.value.code == "not_found"


async def test_a_cancelled_test_cancels_its_run():
    begun, ended = asyncio.Event(), asyncio.Event()

    @runner()
    async def waits(ctx: RunContext):
        try:
            yield "a"
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.ensure_future(MemoryHost().run(waits, "hi"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ended.wait()

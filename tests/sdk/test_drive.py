"""Driving a runner: with any behaviour, its run gets one terminal result."""

import asyncio
import contextlib

import pytest

from bollard.protocol import AgentAPIError, Message
from bollard.sdk import AgentAPIException, BadYield, ResultTooLarge, RunContext, runner

pytestmark = pytest.mark.anyio


async def test_yielded_results_are_sent_in_order_and_the_end_completes_the_run(driven):
    @runner()
    async def two(ctx: RunContext):
        yield ctx.delta("a")
        yield ctx.completed("ab")

    outlet = await driven(two)
    assert outlet.types == ["message.delta", "message.completed", "run.completed"]
    assert outlet.terminal == ("run.completed", {"finish_reason": "end"})


async def test_a_plain_string_is_a_delta(driven):
    @runner()
    async def plain(ctx: RunContext):
        yield "a"
        yield "b"

    assert (await driven(plain)).text == "ab"


async def test_a_generator_without_results_still_completes(driven):
    @runner()
    async def silent(ctx: RunContext):
        return
        yield

    assert (await driven(silent)).sent == [("run.completed", {"finish_reason": "end"})]


async def test_a_raising_runner_fails_its_run_with_type_and_message(driven):
    @runner()
    async def broken(ctx: RunContext):
        yield "before"
        raise KeyError("which")

    outlet = await driven(broken)
    assert outlet.text == "before"
    assert outlet.terminal == ("run.failed", {"code": "runner.error", "error": "KeyError: 'which'", "retryable": False})


async def test_an_invalid_yield_is_raised_at_the_yield_with_its_type(driven):
    caught = []

    @runner()
    async def rubbish(ctx: RunContext):
        try:
            yield 42
        except BadYield as error:
            caught.append(error.value_type)
        yield "still here"

    outlet = await driven(rubbish)
    assert caught == ["int"]
    assert outlet.text == "still here"
    assert outlet.terminal[0] == "run.completed"


async def test_an_uncaught_invalid_yield_fails_the_run_with_a_hint(driven):
    @runner()
    async def rubbish(ctx: RunContext):
        yield {"not": "a result"}

    kind, data = (await driven(rubbish)).terminal
    assert kind == "run.failed"
    assert "a dict" in data["error"]
    assert "ctx.delta()" in data["error"]


async def test_a_runner_that_yields_invalid_values_for_ever_is_abandoned(driven):
    @runner()
    async def stubborn(ctx: RunContext):
        while True:
            with contextlib.suppress(BadYield):
                yield None

    kind, data = (await driven(stubborn)).terminal
    assert (kind, data["code"]) == ("run.failed", "runner.error")
    assert "NoneType" in data["error"]


@pytest.mark.requirement("P05-13")
async def test_an_oversized_result_is_raised_at_its_yield(driven, outlet):
    outlet.refuse["message.delta"] = ResultTooLarge("message.delta", 2_000_000, 1_048_576)
    seen = []

    @runner()
    async def large(ctx: RunContext):
        try:
            yield ctx.delta("x" * 10)
        except ResultTooLarge as error:
            seen.append((error.type, error.size_bytes, error.limit_bytes))
        yield ctx.delta("short")

    assert (await driven(large)).text == "short"
    assert seen == [("message.delta", 2_000_000, 1_048_576)]


async def test_an_uncaught_oversized_result_fails_the_run(driven, outlet):
    outlet.refuse["message.delta"] = ResultTooLarge("message.delta", 2_000_000, 1_048_576)

    @runner()
    async def large(ctx: RunContext):
        yield ctx.delta("x")

    kind, data = (await driven(large)).terminal
    assert (kind, data["code"]) == ("run.failed", "runner.error")
    assert "2000000 bytes" in data["error"]


async def test_no_result_follows_a_terminal_result_and_the_generator_is_closed(driven):
    closed = []

    @runner()
    async def chatty(ctx: RunContext):
        try:
            yield ctx.finish("stop", "bye")
            yield ctx.delta("too late")
        finally:
            closed.append(True)

    outlet = await driven(chatty)
    assert outlet.types == ["run.completed"]
    assert outlet.terminal[1]["finish_reason"] == "stop"
    assert closed == [True]


async def test_a_generator_that_refuses_to_close_is_reported_and_changes_nothing(driven, caplog):
    @runner()
    async def clinging(ctx: RunContext):
        try:
            yield ctx.finish()
        except GeneratorExit:
            yield "still talking"

    outlet = await driven(clinging)
    assert outlet.types == ["run.completed"]
    assert "async generator ignored GeneratorExit" in caplog.text


async def test_clean_up_after_a_terminal_result_may_be_cancelled(start, outlet):
    cleaning = asyncio.Event()

    @runner()
    async def slow(ctx: RunContext):
        try:
            yield ctx.finish()
        finally:
            cleaning.set()
            await asyncio.Event().wait()

    run = start(slow)
    await cleaning.wait()
    run.cancel()
    await run.task
    assert outlet.types == ["run.completed"]


async def test_an_exception_during_the_closing_of_a_runner_changes_nothing(driven):
    @runner()
    async def sore(ctx: RunContext):
        try:
            yield ctx.finish()
        finally:
            raise OSError("late")

    assert (await driven(sore)).types == ["run.completed"]


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), RecursionError("deep"), StopIteration("x")]
)
async def test_a_base_exception_of_a_runner_ends_in_one_failure(driven, error):
    @runner()
    async def violent(ctx: RunContext):
        yield "a"
        raise error

    kind, data = (await driven(violent)).terminal
    assert (kind, data["code"]) == ("run.failed", "runner.error")
    assert data["error"]


async def test_endless_recursion_fails_the_run(driven):
    @runner()
    async def deep(ctx: RunContext):
        def down() -> None:
            down()

        down()
        yield ""

    assert (await driven(deep)).terminal[1]["error"].startswith("RecursionError")


async def test_an_exception_with_an_unreadable_message_still_fails_the_run(driven):
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    @runner()
    async def mute(ctx: RunContext):
        yield "a"
        raise Mute

    assert (await driven(mute)).terminal[1]["error"] == "Mute: (its message cannot be read)"


async def test_the_error_message_is_limited_and_valid_unicode(driven):
    @runner()
    async def loud(ctx: RunContext):
        yield "a"
        raise ValueError("\ud800" + "x" * 10_000)

    sentence = (await driven(loud)).terminal[1]["error"]
    assert len(sentence) <= 2000
    assert sentence.encode()


async def test_an_uncaught_api_error_fails_the_run_with_its_code(driven):
    @runner()
    async def refused(ctx: RunContext):
        yield "a"
        raise AgentAPIException(AgentAPIError(code="not_found", message="no model gpt"))

    _, data = (await driven(refused)).terminal
    assert data["code"] == "runner.error"
    assert data["error"] == "AgentAPIException: not_found: no model gpt"


# --- coroutine runners ---


@pytest.mark.parametrize(
    ("answer", "content"), [("done", "done"), (Message(role="assistant", content="whole"), "whole")]
)
async def test_the_return_value_of_a_coroutine_runner_is_its_answer(driven, answer, content):
    @runner()
    async def quiet(ctx: RunContext):
        return answer

    kind, data = (await driven(quiet)).terminal
    assert (kind, data["finish_reason"], data["message"]["content"]) == ("run.completed", "end", content)


async def test_a_coroutine_runner_may_return_none(driven):
    @runner()
    async def quiet(ctx: RunContext):
        return None

    assert (await driven(quiet)).sent == [("run.completed", {"finish_reason": "end"})]


async def test_a_coroutine_runner_may_return_a_result(driven):
    @runner()
    async def failing(ctx: RunContext):
        return ctx.fail("not today", retryable=True)

    assert (await driven(failing)).sent == [
        ("run.failed", {"code": "runner.error", "error": "not today", "retryable": True})
    ]


async def test_a_coroutine_runner_that_returns_an_invalid_value_fails(driven):
    @runner()
    async def odd(ctx: RunContext):
        return 7

    kind, data = (await driven(odd)).terminal
    assert kind == "run.failed"
    assert "returned a int" in data["error"]


async def test_an_oversized_answer_fails_the_coroutine_runner(driven, outlet):
    outlet.refuse["run.completed"] = ResultTooLarge("run.completed", 9, 8)

    @runner()
    async def large(ctx: RunContext):
        return "x"

    assert (await driven(large)).terminal[1]["code"] == "runner.error"


async def test_a_class_runner_works_like_a_function(driven):
    @runner()
    class Greeter:
        def __init__(self) -> None:
            self.name = "class"

        async def run(self, ctx: RunContext):
            yield ctx.delta(self.name)

    assert (await driven(Greeter)).text == "class"


# --- cancellation ---


@runner()
async def waiting(ctx: RunContext):
    yield "a"
    await asyncio.Event().wait()


async def until(condition) -> None:
    while not condition():  # noqa: ASYNC110 -- the condition is the code under test, which has no event
        await asyncio.sleep(0)


@pytest.mark.parametrize("reason", ["cancelled", "revoked", "runner.timeout"])
async def test_a_cancelled_runner_fails_with_the_reason_as_its_code(start, reason):
    run = start(waiting)
    await until(lambda: run.outlet.sent)
    run.cancel(reason)
    await run.task
    kind, data = run.outlet.terminal
    assert (kind, data["code"]) == ("run.failed", reason)


async def test_a_runner_that_waits_for_credit_is_cancelled_at_its_yield(start, outlet):
    outlet.gate = asyncio.Event()
    seen = []

    @runner()
    async def sender(ctx: RunContext):
        try:
            yield "never taken"
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    run = start(sender)
    await outlet.waiting.wait()
    run.cancel()
    await run.task
    assert seen == ["cancelled"]
    assert run.outlet.types == ["run.failed"]


async def test_an_interruptible_runner_may_send_last_results(start):
    @runner(capabilities=["interrupt"])
    async def polite(ctx: RunContext):
        yield "a"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield "b"
            raise

    run = start(polite, interrupt=True)
    await until(lambda: run.outlet.sent)
    run.cancel()
    await run.task
    assert run.outlet.text == "ab"
    assert run.outlet.terminal[1]["code"] == "cancelled"


async def test_results_of_other_runners_after_a_cancel_are_swallowed(start):
    @runner()
    async def stubborn(ctx: RunContext):
        yield "a"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for _ in range(3):
                yield "b"

    run = start(stubborn)
    await until(lambda: run.outlet.sent)
    run.cancel("revoked")
    await run.task
    assert run.outlet.text == "a"
    assert run.outlet.terminal[1]["code"] == "revoked"


@pytest.mark.parametrize("interrupt", [True, False])
async def test_a_terminal_result_sent_after_a_cancel_is_the_only_one(start, interrupt):
    @runner()
    async def closing(ctx: RunContext):
        yield "a"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield ctx.finish("stopped early")

    run = start(closing, interrupt=interrupt)
    await until(lambda: run.outlet.sent)
    run.cancel()
    await run.task
    assert run.outlet.terminal == ("run.completed", {"finish_reason": "stopped early"})


async def test_a_runner_that_ignores_its_cancel_does_not_block_the_loop(start):
    others = asyncio.Event()

    @runner()
    async def deaf(ctx: RunContext):
        yield "a"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            while not others.is_set():
                yield "b"

    run = start(deaf)
    await until(lambda: run.outlet.sent)
    run.cancel()
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(others.set)
    await run.task
    assert run.outlet.types == ["message.delta", "run.failed"]


async def test_an_error_in_the_clean_up_of_a_cancelled_run_keeps_the_reason(start):
    @runner()
    async def sore(ctx: RunContext):
        yield "a"
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("disk")

    run = start(sore)
    await until(lambda: run.outlet.sent)
    run.cancel()
    await run.task
    assert run.outlet.terminal[1] == {"code": "cancelled", "error": "OSError: disk", "retryable": False}


async def test_a_cancelled_coroutine_runner_fails_with_the_reason(start):
    started = asyncio.Event()

    @runner()
    async def quiet(ctx: RunContext):
        started.set()
        await asyncio.Event().wait()

    run = start(quiet)
    await started.wait()
    run.cancel("revoked")
    await run.task
    assert run.outlet.terminal[1]["code"] == "revoked"


@pytest.mark.parametrize(("interrupt", "types"), [(True, ["message.completed", "run.failed"]), (False, ["run.failed"])])
async def test_the_return_value_of_a_cancelled_coroutine_is_a_last_result_with_interrupt(start, interrupt, types):
    started = asyncio.Event()

    @runner()
    async def quiet(ctx: RunContext):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "so far"

    run = start(quiet, interrupt=interrupt)
    await started.wait()
    run.cancel()
    await run.task
    assert run.outlet.types == types


async def test_a_cancelled_subtask_of_a_runner_does_not_cancel_the_run(driven):
    @runner()
    async def clumsy(ctx: RunContext):
        yield "a"
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task

    _, data = (await driven(clumsy)).terminal
    assert (data["code"], data["error"]) == ("runner.error", "CancelledError")


async def test_a_second_cancel_while_last_results_wait_still_gives_one_terminal_result(start, outlet):
    @runner(capabilities=["interrupt"])
    async def slow(ctx: RunContext):
        yield "a"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield "b"

    run = start(slow, interrupt=True)
    await until(lambda: run.outlet.sent)
    outlet.gate = asyncio.Event()
    run.cancel()
    await outlet.waiting.wait()
    run.task.cancel()
    await run.task
    assert run.outlet.types == ["message.delta", "run.failed"]


async def test_an_async_iterator_other_than_a_generator_works_too(driven):
    class Counting:
        def __init__(self) -> None:
            self.left = 2

        def call(self, ctx: RunContext):
            return self

        def __aiter__(self):
            return self

        async def __anext__(self) -> str:
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            return str(self.left)

    assert (await driven(Counting())).text == "10"


async def test_a_call_that_raises_at_once_fails_the_run(driven):
    class Refusing:
        def call(self, ctx: RunContext):
            raise LookupError("no way in")

    assert (await driven(Refusing())).terminal[1]["error"] == "LookupError: no way in"


async def test_text_is_sent_at_once_if_possible_and_never_after_a_cancel(start, outlet):
    outlet.at_once = True

    @runner()
    async def quick(ctx: RunContext):
        yield ctx.delta("a")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield ctx.delta("b")

    run = start(quick)
    await until(lambda: run.outlet.sent)
    run.cancel()
    await run.task
    assert run.outlet.text == "a"
    assert run.outlet.terminal[1]["code"] == "cancelled"


async def test_a_coroutine_runner_may_return_a_non_terminal_result(driven):
    @runner()
    async def whole(ctx: RunContext):
        return ctx.completed("hello")

    assert (await driven(whole)).types == ["message.completed", "run.completed"]


async def test_an_invalid_returned_result_fails_the_run(driven, outlet):
    outlet.refuse["message.completed"] = ResultTooLarge("message.completed", 9, 8)

    @runner()
    async def whole(ctx: RunContext):
        return ctx.completed("hello")

    assert (await driven(whole)).terminal[1]["code"] == "runner.error"


@pytest.mark.parametrize("kind", ["run.completed", "run.failed"])
async def test_a_cancel_during_the_terminal_result_still_leaves_one(driven, outlet, kind):
    outlet.refuse[kind] = asyncio.CancelledError()

    @runner()
    async def ends(ctx: RunContext):
        yield "a"
        if kind == "run.failed":
            raise ValueError("no")

    assert (await driven(ends)).terminal[0] == "run.failed"


@pytest.mark.parametrize("refusal", [ResultTooLarge("message.completed", 9, 8), asyncio.CancelledError()])
async def test_an_unsendable_last_answer_still_ends_with_the_reason(start, outlet, refusal):
    outlet.refuse["message.completed"] = refusal
    started = asyncio.Event()

    @runner()
    async def quiet(ctx: RunContext):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "so far"

    run = start(quiet, interrupt=True)
    await started.wait()
    run.cancel("revoked")
    await run.task
    assert run.outlet.terminal[1]["code"] == "revoked"


async def test_a_run_closed_with_its_loop_awaits_nothing(start):
    run = start(waiting)
    await until(lambda: run.outlet.sent)
    run.task.get_coro().close()
    assert run.outlet.types == ["message.delta"]
    run.task.cancel()
    with pytest.raises(RuntimeError):
        await run.task


async def test_a_raising_runner_leaves_a_log_record_with_its_own_lines(driven, caplog):
    @runner()
    async def broken(ctx: RunContext):
        yield "before"
        raise KeyError("which")

    await driven(broken)
    [record] = [record for record in caplog.records if "the runner raised" in record.getMessage()]
    assert "test_drive.py:" in record.getMessage()
    assert "in broken" in record.getMessage()
    assert "sdk/run_driver.py" not in record.getMessage()

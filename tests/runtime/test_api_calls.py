"""The run API from a real worker: answers, errors, parallel calls, streams, and abandoned calls."""

import asyncio
from typing import Any

import pytest

from bollard.protocol import AgentAPIError, limits
from bollard.wire import ChannelClosed

INFO = {"host_version": "1", "protocol": 1, "limits": {}}
CALLS = """
from bollard.sdk import AgentAPIException

escaped = []

def told(error):
    return f"{error.code} {error.retryable} {error.error.details} {error.error.message}"

@runner(name="call")
async def call(ctx: RunContext):
    escaped.append(ctx)
    try:
        info = await ctx.api.host.info()
        yield info.host_version
    except AgentAPIException as error:
        yield told(error)

@runner(name="after")
async def after(ctx: RunContext):
    try:
        await escaped[-1].api.host.info()
    except AgentAPIException as error:
        yield told(error)

@runner(name="parallel")
async def parallel(ctx: RunContext):
    keys = [str(number) for number in range(30)]
    values = await asyncio.gather(*(ctx.api.state.get("runner", key) for key in keys))
    yield ",".join(value.value for value in values)

@runner(name="too_many")
async def too_many(ctx: RunContext):
    answers = await asyncio.gather(*(ctx.api.state.get("runner", str(n)) for n in range(40)), return_exceptions=True)
    yield ",".join(getattr(answer, "code", "ok") for answer in answers)

@runner(name="large")
async def large(ctx: RunContext):
    value = 0
    for _ in range(ctx.config.get("deep", 0)):
        value = [value]
    nodes = [0] * ctx.config.get("nodes", 0)
    number = 2**53 + ctx.config.get("more", -1)
    parameters = {"text": "x" * ctx.config.get("size", 0), "deep": value, "nodes": nodes, "number": number}
    if ctx.config.get("surrogate"):
        parameters["text"] = "\\ud800"
    if ctx.config.get("nan"):
        parameters["text"] = float("nan")
    try:
        yield str((await ctx.api.tools.call("t", parameters)).is_error)
    except AgentAPIException as error:
        yield error.code

@runner(name="gives_up")
async def gives_up(ctx: RunContext):
    try:
        async with asyncio.timeout(0.05):
            await ctx.api.host.info()
    except TimeoutError:
        yield "gave up"
    await ctx.api.state.get("runner", "k")
    yield " and on"

@runner(name="waits")
async def waits(ctx: RunContext):
    try:
        await ctx.api.host.info()
    except AgentAPIException as error:
        os.write(2, f"waited: {told(error)}\\n".encode())
        raise

@runner(name="stream")
async def stream(ctx: RunContext):
    seen = 0
    try:
        async for chunk in ctx.api.models.stream("m", [{"role": "user", "content": "hi"}]):
            seen += 1
            if ctx.config.get("echo"):
                yield chunk.content
            if seen == ctx.config.get("slow_after"):
                await ctx.api.state.get("runner", "go")
            if seen == ctx.config.get("leave_after"):
                break
    except AgentAPIException as error:
        yield told(error)
    await asyncio.sleep(0)
    yield f" seen {seen}"
    if ctx.config.get("stay"):
        await ctx.api.state.get("runner", "stay")
"""


def chunk(text: str) -> Any:
    return {"role": "assistant", "content": text}


def value(call: Any) -> Any:
    return {"value": call.params["key"], "version": 1}


@pytest.mark.requirement("P06-01", "P06-07", "P07-01", "P07-03", "P07-04")
async def test_an_answer_or_an_error_with_its_fields_reaches_the_runner(start: Any, say: Any) -> None:
    driver = await start(CALLS)
    run = await driver.finished("call", api={"host.info": say({**INFO, "new": 1})})
    assert (run.text, run.calls[0].run_id, run.calls[0].action) == ("1", run.run_id, "host.info")
    error = AgentAPIError(code="rate_limited", message="later", retryable=True, details={"after_ms": 5})
    refused = await driver.finished("call", api={"host.info": say(error)})
    assert refused.text == "rate_limited True {'after_ms': 5} later"
    unknown = await driver.finished("call", api={"host.info": say(AgentAPIError(code="brand_new", message="m"))})
    assert unknown.text == "brand_new False {} m"
    wrong = await driver.finished("call", api={"host.info": say({"protocol": "one"})})
    assert wrong.text.startswith("runtime_error")
    assert driver.strikes == []


@pytest.mark.requirement("P06-04")
async def test_parallel_calls_each_get_their_own_answer_in_any_order(start: Any) -> None:
    driver = await start(CALLS)
    held: list[Any] = []
    run = driver.play("parallel", api={"state.get": held.append})
    await driver.until(lambda: len(held) == 30)
    for call in reversed(held):
        call.answer(value(call))
    await run.end()
    assert run.text == ",".join(str(number) for number in range(30))
    many = driver.play("too_many", api={"state.get": held.append})
    await driver.until(lambda: len(held) == 30 + limits.CALLS_IN_FLIGHT)
    for call in held[30:]:
        call.answer(value(call))
    await many.end()
    assert sorted(many.text.split(",")) == ["ok"] * limits.CALLS_IN_FLIGHT + ["rate_limited"] * 8
    assert driver.strikes == []


async def test_invalid_parameters_are_refused_before_they_are_sent(start: Any) -> None:
    driver = await start(CALLS)
    refused = {
        "payload_too_large": {"size": limits.CALL_BYTES},
        "deep": {"deep": limits.FRAME_DEPTH - 3},
        "nodes": {"nodes": limits.FRAME_NODES},
        "integer": {"more": 1},
        "surrogate": {"surrogate": True},
        "nan": {"nan": True},
    }
    for name, config in refused.items():
        run = await driver.finished("large", config)
        expected = "payload_too_large" if name == "payload_too_large" else "invalid_argument"
        assert (run.text, run.calls) == (expected, []), name
    answer = {"call_id": "c", "content": [], "is_error": False, "artifact_refs": [], "duration_ms": 1}
    for config in ({"size": 900_000}, {"deep": 40}, {"nodes": 9000}, {"more": 0}):
        run = await driver.finished("large", config, api={"tools.call": lambda _: answer})
        assert run.text == "False", config
    assert driver.strikes == []


@pytest.mark.requirement("P11-26")
async def test_an_abandoned_call_is_cancelled_and_its_late_answer_is_dropped(start: Any) -> None:
    driver = await start(CALLS)
    held: list[Any] = []
    run = driver.play("gives_up", api={"host.info": held.append, "state.get": held.append})
    await driver.until(lambda: "host.info" in run.given_up)
    held[0].answer(INFO)
    await driver.until(lambda: len(held) == 2)
    held[1].answer(value(held[1]))
    await run.end()
    assert (run.text, run.is_well_formed) == ("gave up and on", True)
    cancelled = driver.play("waits")
    await driver.until(lambda: len(cancelled.calls) == 1)
    cancelled.handle.cancel("cancelled")
    await cancelled.end()
    assert (cancelled.given_up, cancelled.last.data["code"]) == (["host.info"], "cancelled")
    assert driver.strikes == []


async def test_calls_of_an_ended_run_are_refused_without_a_request(start: Any, say: Any) -> None:
    driver = await start(CALLS)
    first = await driver.finished("call", api={"host.info": say(INFO)})
    after = await driver.finished("after")
    assert after.text.startswith("cancelled")
    assert (len(first.calls), after.calls, driver.strikes) == (1, [], [])


async def test_a_call_in_flight_is_cancelled_when_the_connection_is_lost(start: Any) -> None:
    driver = await start(CALLS)
    run = driver.play("waits")
    await driver.until(lambda: len(run.calls) == 1)
    driver.host.close("gone")
    assert await driver.exit_code() == 0
    await driver.written_line("waited: cancelled")


@pytest.mark.requirement("P06-06", "P11-29", "P11-30", "P11-64")
async def test_a_stream_may_exceed_its_window_and_ends_with_its_answer_or_its_error(start: Any) -> None:
    driver = await start(CALLS)

    async def many(call: Any) -> Any:
        for number in range(1000):
            await call.chunk(chunk(f"{number},"))
        return {}

    async def broken(call: Any) -> Any:
        await call.chunk(chunk("one "))
        return AgentAPIError(code="deadline_exceeded", message="out of time")

    run = await driver.finished("stream", {"echo": True}, api={"models.stream": many})
    assert run.text == "".join(f"{number}," for number in range(1000)) + " seen 1000"
    failed = await driver.finished("stream", {"echo": True}, api={"models.stream": broken})
    assert failed.text == "one deadline_exceeded False {} out of time seen 1"
    assert driver.strikes == []


@pytest.mark.requirement("P11-27", "P11-28")
async def test_an_abandoned_stream_is_cancelled_at_once_and_a_slow_reader_slows_the_host(start: Any) -> None:
    driver = await start(CALLS)
    sent: list[int] = []

    async def endless(call: Any) -> Any:
        try:
            while True:
                await call.chunk(chunk("x"))
                sent.append(1)
                await asyncio.sleep(0)
        except ChannelClosed:
            return None

    left = driver.play("stream", {"leave_after": 3, "stay": True}, api={"models.stream": endless})
    await driver.until(lambda: "models.stream" in left.given_up)
    await driver.until(lambda: left.text == " seen 3")
    assert not left.handle.ended.done()
    sent.clear()
    held: list[Any] = []
    slow = driver.play(
        "stream", {"slow_after": 2, "leave_after": 600}, api={"models.stream": endless, "state.get": held.append}
    )
    await driver.until(lambda: held)
    await driver.host.ping()
    await driver.host.ping()
    assert len(sent) <= 2 + limits.STREAM_WINDOW_CHUNKS
    held[0].answer(value(held[0]))
    await slow.end()
    assert (slow.text, slow.given_up, slow.is_well_formed) == (" seen 600", ["models.stream"], True)
    assert driver.strikes == []

"""Cancellation in a real worker: at once, with last words, or after five seconds without any."""

import asyncio
import time
from typing import Any

import pytest

from bollard.protocol import FAILURE_CODES, limits

RUNNERS = """
@runner(name="waits")
async def waits(ctx: RunContext):
    yield "begun"
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0.01)
        ctx.log("cleaned up")

async def last_words(ctx):
    yield "begun"
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        yield " last"
        yield ctx.state("conversation", "k", 1)
        if ctx.config.get("own"):
            yield ctx.finish("stopped")
        if ctx.config.get("raise"):
            raise ValueError("while stopping")

runner(name="interruptible", capabilities=["interrupt"])(last_words)

@runner(name="plain")
async def plain(ctx: RunContext):
    async for result in last_words(ctx):
        yield result

@runner(name="floods")
async def floods(ctx: RunContext):
    while True:
        yield "x"

@runner(name="stubborn")
async def stubborn(ctx: RunContext):
    yield "begun"
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            yield "ignored"

@runner(name="spinning", capabilities=["interrupt"])
async def spinning(ctx: RunContext):
    while True:
        try:
            yield "x"
        except asyncio.CancelledError:
            pass

@runner(name="late")
async def late(ctx: RunContext):
    yield "begun"
    end = time.monotonic() + 5.5
    while time.monotonic() < end:
        try:
            await asyncio.sleep(end - time.monotonic())
        except asyncio.CancelledError:
            pass
    yield "too late"
    try:
        await ctx.api.host.info()
    except Exception as error:
        os.write(2, f"late call: {error.code}\\n".encode())
    print("late print")

@runner(name="coroutine", capabilities=["interrupt"])
async def coroutine(ctx: RunContext):
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        return "last answer"

@runner(name="slow-start")
class SlowStart:
    async def start(self):
        if not os.path.exists(os.path.join(os.path.dirname(__file__), "go")):
            os.write(2, b"starting\\n")
            await asyncio.sleep(3600)
    async def run(self, ctx: RunContext):
        yield "ran"
"""


@pytest.mark.requirement("P08-01", "P08-08")
async def test_every_reason_is_returned_after_the_clean_up_and_a_second_cancel_changes_nothing(start: Any) -> None:
    driver = await start(RUNNERS)
    runs = {reason: driver.play("waits") for reason in (*FAILURE_CODES, "a.newer.reason")}
    for reason, run in runs.items():
        await run.until(1)
        run.handle.cancel(reason)
        run.handle.cancel("revoked")
        await run.end()
        assert run.is_well_formed
        assert run.types == ["message.delta", "run.failed"]
        assert run.last.data["code"] == reason
    cleaned = [record.run_id for record in driver.logs if record.message == "cleaned up"]
    assert sorted(cleaned) == sorted(run.run_id for run in runs.values())
    assert driver.strikes == []


@pytest.mark.requirement("P08-02", "P08-03", "P08-16")
async def test_last_results_are_sent_with_interrupt_and_swallowed_without(start: Any) -> None:
    driver = await start(RUNNERS)

    async def cancelled(name: str, config: dict[str, Any]) -> Any:
        run = driver.play(name, config)
        await run.until(1)
        run.handle.cancel("cancelled")
        await run.end()
        assert run.is_well_formed
        return run

    spoken = await cancelled("interruptible", {})
    assert spoken.types == ["message.delta", "message.delta", "state.updated", "run.failed"]
    assert (spoken.text, spoken.last.data["code"]) == ("begun last", "cancelled")
    own = await cancelled("interruptible", {"own": True})
    assert (own.types[-1], own.last.data["finish_reason"]) == ("run.completed", "stopped")
    raised = await cancelled("interruptible", {"raise": True})
    assert raised.last.data["code"] == "cancelled"
    silent = await cancelled("plain", {})
    assert (silent.text, silent.types) == ("begun", ["message.delta", "run.failed"])
    own_silent = await cancelled("plain", {"own": True})
    assert own_silent.types == ["message.delta", "run.completed"]
    assert driver.strikes == []


@pytest.mark.requirement("P08-09", "P08-06", "P08-07")
async def test_a_run_is_cancelled_while_it_waits_for_credit_an_answer_or_its_start(start: Any) -> None:
    driver = await start(RUNNERS)
    other = driver.play("waits")
    waiting = driver.play("floods", credited=False)
    await waiting.until(limits.WINDOW_RESULTS)
    waiting.handle.cancel("revoked")
    await waiting.end()
    assert len(waiting.results) == limits.WINDOW_RESULTS + 1
    assert (waiting.is_well_formed, waiting.last.data["code"]) == (True, "revoked")
    unbegun = driver.play("waits")
    unbegun.handle.cancel("runner.timeout")
    await unbegun.end()
    assert (unbegun.types[-1], unbegun.last.data["code"]) == ("run.failed", "runner.timeout")
    assert unbegun.is_well_formed
    answered = driver.play("coroutine")
    await driver.host.ping()
    answered.handle.cancel("cancelled")
    await answered.end()
    assert answered.types == ["message.completed", "run.failed"]
    unbegun.handle.cancel("cancelled")
    await driver.host.ping()
    assert not other.handle.ended.done()
    assert driver.strikes == []


async def test_a_start_cancelled_with_its_run_is_retried(start: Any, tmp_path: Any) -> None:
    driver = await start(RUNNERS)
    first, second = driver.play("slow-start"), driver.play("slow-start")
    await driver.written_line("starting")
    second.handle.cancel("cancelled")
    await second.end()
    (tmp_path / "go").touch()
    first.handle.cancel("revoked")
    await first.end()
    assert [run.last.data["code"] for run in (second, first)] == ["cancelled", "revoked"]
    assert (await driver.finished("slow-start")).text == "ran"


@pytest.mark.requirement("P08-04", "P08-05", "P08-06")
async def test_runs_that_ignore_their_cancel_are_abandoned_after_the_grace_and_stay_silent(start: Any) -> None:
    driver = await start(RUNNERS)
    stubborn, spinning, late, other = (driver.play(name) for name in ("stubborn", "spinning", "late", "waits"))
    for run in (stubborn, spinning, late, other):
        await run.until(1)
    cancelled_at = time.monotonic()
    for run in (stubborn, spinning, late):
        run.handle.cancel("cancelled")
    ends = await asyncio.gather(*(run.end() for run in (stubborn, spinning, late)))
    elapsed = time.monotonic() - cancelled_at
    assert elapsed >= limits.CANCEL_GRACE_S - 0.1
    for run, end in zip((stubborn, spinning, late), ends, strict=True):
        assert (end.how, end.last_sequence) == ("answered", len(run.results))
        assert "run.failed" not in run.types
    assert stubborn.text == late.text == "begun"
    await driver.written_line("late call: cancelled")
    assert await _quick(driver) == "begun"
    assert not other.handle.ended.done()
    assert [record.run_id for record in driver.logs if "abandoned" in record.message] == [
        run.run_id for run in (stubborn, spinning, late)
    ]
    assert driver.strikes == []
    driver.host.close("done")
    assert await driver.exit_code() == 0


async def _quick(driver: Any) -> str:
    run = driver.play("waits")
    await run.until(1)
    run.handle.cancel("cancelled")
    await run.end()
    return run.text

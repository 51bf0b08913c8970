"""Runs in a real worker: numbering, endings, invalid yields, many at once."""

import asyncio
from typing import Any

import pytest

from bollard.protocol import limits

ENDINGS = """
class Gone(BaseException):
    pass

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("cannot even say it")

@runner()
async def run(ctx: RunContext):
    yield ctx.delta("a")
    error = ctx.config.get("raise")
    if error == "system_exit":
        sys.exit(7)
    if error == "keyboard":
        raise KeyboardInterrupt
    if error == "base":
        raise Gone("gone")
    if error == "mute":
        raise Mute
    if error == "surrogate":
        raise ValueError("half of a pair: \\ud800")
    if error == "stop":
        raise StopAsyncIteration("odd")
    if error == "generator_exit":
        raise GeneratorExit
    if error == "long":
        raise ValueError("x" * 100_000)
    if error == "cancelled":
        raise asyncio.CancelledError
    if error:
        raise ValueError(error)
    yield "b"
    if ctx.config.get("fail"):
        yield ctx.fail("no", retryable=True)
    if ctx.config.get("finish"):
        yield ctx.finish("stop", "all of it")
        yield "after the end"

@runner(name="answer")
async def answer(ctx: RunContext):
    if ctx.config.get("number"):
        return 5
    return "whole" if ctx.input.text else None
"""


@pytest.mark.requirement("P05-01", "P05-02", "P05-03", "P05-06", "P04-03")
async def test_results_are_numbered_and_end_with_one_terminal_result(start: Any) -> None:
    driver = await start(ENDINGS)
    plain = await driver.finished()
    assert (plain.text, plain.types[-1], plain.last.data) == ("ab", "run.completed", {"finish_reason": "end"})
    assert (await plain.end()).last_sequence == 3
    finished = await driver.finished(config={"finish": True})
    assert (finished.text, finished.last.data["finish_reason"]) == ("ab", "stop")
    failed = await driver.finished(config={"fail": True})
    assert failed.last.data == {"code": "runner.error", "error": "no", "retryable": True}
    answered = await driver.finished("answer")
    assert answered.last.data["message"]["content"] == "whole"
    silent = await driver.finished("answer", text=None)
    assert silent.last.data == {"finish_reason": "end"}
    returned = await driver.finished("answer", {"number": True})
    assert returned.last.type == "run.failed"
    assert all(run.is_well_formed for run in driver.runs.values())
    assert driver.strikes == []


@pytest.mark.requirement("P05-04", "P05-05", "P05-39")
async def test_any_exception_of_a_runner_fails_only_its_run(start: Any) -> None:
    driver = await start(ENDINGS)
    expected = {
        "boom": "ValueError: boom",
        "system_exit": "SystemExit: 7",
        "keyboard": "KeyboardInterrupt",
        "base": "Gone: gone",
        "mute": "Mute: (its message cannot be read)",
        "surrogate": "ValueError: half of a pair: ?",
        "stop": "",
        "generator_exit": "GeneratorExit",
        "long": "ValueError: xxx",
        "cancelled": "CancelledError",
    }
    runs = {error: driver.play(config={"raise": error}) for error in expected}
    for error, run in runs.items():
        await run.end()
        assert run.is_well_formed, error
        assert run.last.data["code"] == "runner.error", error
        assert run.last.data["error"].startswith(expected[error]), error
        assert len(run.last.data["error"]) <= 2000
    assert (await driver.finished()).last.type == "run.completed"
    assert driver.strikes == []


RUBBISH = """
def deep(levels):
    value = 0
    for _ in range(levels):
        value = [value]
    return value

VALUES = {
    "object": lambda: object(),
    "number": lambda: 5,
    "none": lambda: None,
    "dict": lambda: {"type": "message.delta"},
    "data_object": lambda: Result("tool.call.started", {"parameters": object()}),
    "nan": lambda: Result("tool.call.started", {"parameters": float("nan")}),
    "infinity": lambda: Result("tool.call.started", {"parameters": [float("-inf")]}),
    "surrogate": lambda: Result("tool.call.started", {"parameters": "\\ud800"}),
    "surrogate_text": lambda: "\\ud800",
    "deep": lambda: Result("tool.call.started", {"parameters": deep(65)}),
    "very_deep": lambda: Result("tool.call.started", {"parameters": deep(100_000)}),
    "nodes": lambda: Result("tool.call.started", {"parameters": [0] * 10_001}),
    "integer": lambda: Result("tool.call.started", {"parameters": 2**53 + 1}),
    "key": lambda: Result("tool.call.started", {"parameters": {"k" * 257: 0}}),
    "data_list": lambda: Result("tool.call.started", [1]),
    "type_number": lambda: Result(5, {}),
    "terminal": lambda: Result("run.completed", {"finish_reason": float("nan")}),
    "large": lambda: "x" * (1 << 20),
}

@runner()
async def run(ctx: RunContext):
    what = ctx.config["what"]
    if not ctx.config.get("catch"):
        yield VALUES[what]()
        yield "not reached"
    try:
        yield VALUES[what]()
    except Exception as error:
        yield type(error).__name__
    yield " and on"
"""

KINDS = {
    "object": "BadYield",
    "number": "BadYield",
    "none": "BadYield",
    "dict": "BadYield",
    "data_object": "InvalidResult",
    "nan": "InvalidResult",
    "infinity": "InvalidResult",
    "surrogate": "InvalidResult",
    "surrogate_text": "InvalidResult",
    "deep": "InvalidResult",
    "very_deep": "InvalidResult",
    "nodes": "InvalidResult",
    "integer": "InvalidResult",
    "key": "InvalidResult",
    "data_list": "InvalidResult",
    "type_number": "InvalidResult",
    "terminal": "InvalidResult",
    "large": "ResultTooLarge",
}


@pytest.mark.requirement("P05-12", "P05-13", "P05-10")
async def test_an_invalid_yield_fails_the_run_or_is_caught_and_is_never_a_strike(start: Any) -> None:
    driver = await start(RUBBISH)
    for what, kind in KINDS.items():
        failed, caught = driver.play(config={"what": what}), driver.play(config={"what": what, "catch": True})
        await failed.end()
        await caught.end()
        assert failed.is_well_formed, what
        assert caught.is_well_formed, what
        assert (failed.last.type, failed.last.data["code"]) == ("run.failed", "runner.error"), what
        assert failed.last.data["error"].startswith(kind), (what, failed.last.data)
        assert (caught.text, caught.last.type) == (f"{kind} and on", "run.completed"), what
    assert driver.strikes == []


@pytest.mark.requirement("P05-10", "P05-11")
async def test_a_result_of_one_mebibyte_is_sent_and_one_byte_more_is_not(start: Any) -> None:
    driver = await start("@runner()\nasync def run(ctx: RunContext):\n    yield 'x' * ctx.config['size']\n")
    probe = await driver.finished(config={"size": 1000}, run_id="r-size-1")
    room = limits.RESULT_BYTES - probe.results[0].size_bytes + 1000
    fits = await driver.finished(config={"size": room}, run_id="r-size-2")
    assert (fits.results[0].size_bytes, fits.last.type) == (limits.RESULT_BYTES, "run.completed")
    over = await driver.finished(config={"size": room + 1}, run_id="r-size-3")
    assert over.types == ["run.failed"]
    assert "ResultTooLarge" in over.last.data["error"]
    assert driver.strikes == []


@pytest.mark.requirement("P04-11", "P12-02")
async def test_two_hundred_runs_share_a_worker_and_keep_their_own_numbers(start: Any) -> None:
    source = """
    @runner()
    async def run(ctx: RunContext):
        for number in range(20):
            yield f"{ctx.config['me']}:{number} "
            await asyncio.sleep(0)
    """
    driver = await start("\n".join(line[4:] for line in source.splitlines()))
    runs = [driver.play(config={"me": me}) for me in range(200)]
    await asyncio.gather(*(run.end() for run in runs))
    for me, run in enumerate(runs):
        assert run.is_well_formed
        assert run.text.split() == [f"{me}:{number}" for number in range(20)]
    assert driver.strikes == []


STATEFUL = """
from pydantic import BaseModel

class Settings(BaseModel):
    times: int = 1
    nested: dict[str, int] = {}

made = []

@runner(name="counter")
class Counter:
    def __init__(self):
        made.append(self)
        self.runs = 0
        self.started = 0

    async def start(self):
        await asyncio.sleep(0)
        self.started += 1

    async def close(self):
        os.write(2, b"counter closed\\n")

    async def run(self, ctx: RunContext[Settings]):
        self.runs += 1
        yield f"{len(made)}/{self.started}/{self.runs}" * ctx.config.times

attempts = []

class Broken:
    async def run(self, ctx: RunContext):
        yield f"attempt {len(attempts)}"

@runner(name="constructor")
class BadConstructor(Broken):
    def __init__(self):
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("not today \\ud800")
        if len(attempts) == 2:
            sys.exit(3)

starts = []

@runner(name="starter")
class BadStart(Broken):
    async def start(self):
        starts.append(1)
        if len(starts) == 1:
            raise KeyboardInterrupt
        if len(starts) == 2:
            raise asyncio.CancelledError
    async def run(self, ctx: RunContext):
        yield f"start {len(starts)}"
"""


@pytest.mark.requirement("P04-15", "P02-15")
async def test_a_class_runner_is_created_once_and_an_invalid_configuration_names_its_field(start: Any) -> None:
    driver = await start(STATEFUL)
    first, *others = [driver.play("counter") for _ in range(5)]
    for run in (first, *others):
        await run.end()
    assert [run.text for run in (first, *others)] == [f"1/1/{number}" for number in range(1, 6)]
    wrong = await driver.finished("counter", {"times": "many"})
    assert "times" in wrong.last.data["error"]
    inner = await driver.finished("counter", {"nested": {"a": "b"}})
    assert "nested.a" in inner.last.data["error"]
    assert (wrong.last.data["code"], wrong.is_well_formed) == ("runner.error", True)
    listed = {found.runner_name: found for found in (await driver.host.list_runners()).runners}
    assert [item.name for item in listed["counter"].manifest.config_schema] == ["times", "nested"]
    driver.host.close("done")
    assert await driver.exit_code() == 0
    await driver.written_line("counter closed")


async def test_a_raising_constructor_or_start_fails_that_run_and_is_retried(start: Any) -> None:
    driver = await start(STATEFUL)
    for name, tries, errors in (
        ("constructor", 3, ("ValueError: not today ?", "SystemExit: 3")),
        ("starter", 3, ("KeyboardInterrupt", "")),
    ):
        for error in errors:
            failed = await driver.finished(name)
            assert (failed.types, failed.last.data["code"]) == (["run.failed"], "runner.error")
            assert error in failed.last.data["error"]
        assert (await driver.finished(name)).text.endswith(str(tries))
    assert driver.strikes == []


@pytest.mark.requirement("P04-10", "P11-07", "P08-11", "P08-12")
async def test_a_run_that_cannot_start_is_refused_by_field_and_the_worker_continues(
    start: Any, make_context: Any
) -> None:
    driver = await start(ENDINGS)
    good = {
        "runner_id": "plugin:local/plugin/default",
        "runner_name": "default",
        "context": make_context("r-good", {}, "hi"),
    }
    bad = {
        "runner_id": {**good, "runner_id": "plugin:local/other/default"},
        "runner_name": {key: value for key, value in good.items() if key != "runner_name"},
        "context.event": {**good, "context": {k: v for k, v in good["context"].items() if k != "event"}},
        "context.trigger": {**good, "context": {**good["context"], "trigger": 5}},
        "context.config": {**good, "context": {**good["context"], "config": []}},
        "context.run_id": {**good, "context": {}},
    }
    for field, request in bad.items():
        end = await driver.play_raw(request, "r-good").end()
        assert end.how == "refused", field
        assert field in end.reason
    unknown = await driver.play_raw({**good, "runner_name": "nobody"}, "r-good").end()
    assert "runner_id" in unknown.reason
    run = driver.play_raw(good, "r-good")
    await run.end()
    assert run.is_well_formed
    again = await driver.play_raw(good, "r-good").end()
    assert (again.how, "stays dead" in again.reason) == ("refused", True)
    assert driver.strikes == []


async def test_an_exiting_task_of_the_plugin_does_not_end_the_worker(start: Any) -> None:
    driver = await start(
        """
kept = []

async def leave():
    sys.exit(9)

@runner()
async def run(ctx: RunContext):
    kept.append(asyncio.create_task(leave()))
    await asyncio.sleep(0.01)
    yield "still here"
"""
    )
    assert (await driver.finished()).text == "still here"
    assert "was ignored" in (await driver.written_line("SystemExit"))[1]
    assert (await driver.finished()).text == "still here"

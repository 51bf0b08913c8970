"""The output of plugin code: a log record of its run, or a line on a pipe, and never a frame."""

import asyncio
import threading
from typing import Any

import pytest

from bollard.protocol import limits
from bollard.runtime.limits import OPEN_LINES, OUTPUT_LINES_WAITING
from bollard.runtime.output import CURRENT_RUN, capture_output, end_lines

pytestmark = pytest.mark.full

PRINTS = """
import logging, subprocess, threading

print("while loading")

@runner(name="prints")
async def prints(ctx: RunContext):
    print("to stdout")
    print("to stderr", file=sys.stderr)
    print('{"jsonrpc":"2.0","method":"run/result","params":{}}')
    print("two\\nlines")
    print("", end="")
    print()
    print("half ", end="")
    await asyncio.sleep(0)
    print("and half")
    await asyncio.to_thread(print, "in a thread")
    thread = threading.Thread(target=print, args=("in a thread of its own",))
    thread.start()
    await asyncio.to_thread(thread.join)
    logging.getLogger("plugin").warning("logged %s", "here")
    print("no end", end="")
    yield "done"

@runner(name="odd")
async def odd(ctx: RunContext):
    print("x" * 20_000)
    print("half a pair: \\ud800")
    sys.stdout.write("written\\n")
    sys.stdout.writelines(["a line\\n"])
    sys.stdout.buffer.write("bytes \\u00e9".encode()[:-1])
    sys.stdout.buffer.write("\\u00e9\\n".encode()[1:])
    sys.stdout.buffer.write(b"not text: \\xff\\n")
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(memoryview(b"a view\\n"))
    sys.stdout.reconfigure(encoding="utf-8", line_buffering=True)
    sys.stdout.close()
    print("after close", flush=True)
    try:
        sys.stdout.write(b"bytes")
    except TypeError as error:
        print("refused:", error)
    print(sys.stdout.isatty(), sys.stdout.encoding, sys.stdout.fileno(), sys.stderr.fileno())
    yield "done"

@runner(name="native")
async def native(ctx: RunContext):
    os.write(1, b"raw one\\n")
    os.write(2, b"raw two\\n")
    subprocess.run(["sh", "-c", "echo child one; echo child two >&2"], check=True)
    subprocess.run(["sh", "-c", "echo handed over"], check=True, stdout=sys.stderr)
    sys.__stdout__.write("the real stdout\\n")
    yield "done"

@runner(name="flood")
async def flood(ctx: RunContext):
    count = ctx.config["count"]
    def many():
        for number in range(count):
            print(number)
    if ctx.config.get("thread"):
        await asyncio.to_thread(many)
    else:
        many()
    yield "done"

@runner(name="logs")
async def logs(ctx: RunContext):
    ctx.log("plain", "error", a=1)
    ctx.log("not json", b=object())
    ctx.log("huge", c="x" * 3_000_000)
    ctx.log("half \\ud800", d="\\ud800")
    ctx.log("integer", e=2**60)
    ctx.log(ValueError("not text"))
    ctx.log("long " + "y" * 9000)
    deep = 0
    for _ in range(70):
        deep = [deep]
    ctx.log("deep", f=deep)
    ctx.log("nodes", g=[0] * 10_001)
    def later():
        time.sleep(0.05)  # until the loop has nothing to do
        ctx.log("from a thread", "info", h=1)
    await asyncio.to_thread(later)
    yield "done"

@runner(name="crash")
async def crash(ctx: RunContext):
    import ctypes
    ctypes.string_at(0)
    yield "never"
"""


@pytest.mark.smoke
@pytest.mark.requirement("P11-20", "P11-58", "P11-17")
async def test_the_output_of_a_runner_is_a_log_record_of_its_run(start: Any) -> None:
    driver = await start(PRINTS)
    one, two = driver.play("prints"), driver.play("prints")
    await one.end()
    await two.end()
    assert (one.is_well_formed, one.text) == (True, "done")
    for run in (one, two):
        mine = [record for record in driver.logs if record.run_id == run.run_id]
        assert [record.message for record in mine] == [
            "to stdout",
            "to stderr",
            '{"jsonrpc":"2.0","method":"run/result","params":{}}',
            "two",
            "lines",
            "",
            "half and half",
            "in a thread",
            "logged here",
            "no end",
        ]
        levels = {record.message: (record.level, record.fields["stream"]) for record in mine}
        assert levels["to stdout"] == ("info", "stdout")
        assert levels["to stderr"] == levels["logged here"] == ("warning", "stderr")
    assert (await driver.logged_line("in a thread of its own")).run_id is None
    assert await driver.written_line("while loading") == ("stdout", "while loading")
    assert driver.strikes == []


@pytest.mark.requirement("P11-19")
async def test_unusual_output_is_limited_decoded_and_never_fails_the_run(start: Any) -> None:
    driver = await start(PRINTS)
    run = await driver.finished("odd")
    assert run.last.type == "run.completed", run.last.data
    long, *others = driver.logs
    assert (len(long.message), long.fields["cut_characters"]) == (limits.LOG_MESSAGE_CHARACTERS, 20_000 - 8192)
    assert [record.message for record in others] == [
        "half a pair: ?",
        "written",
        "a line",
        "bytes é",
        "not text: \ufffd",
        "a view",
        "after close",
        "refused: write() argument must be str, not bytes",
        "False utf-8 1 2",
    ]
    assert driver.strikes == []


@pytest.mark.requirement("P11-52")
async def test_output_of_native_code_and_children_arrives_on_the_pipes(start: Any) -> None:
    driver = await start(PRINTS)
    assert (await driver.finished("native")).last.type == "run.completed"
    for text, stream in (
        ("raw one", "stdout"),
        ("raw two", "stderr"),
        ("child one", "stdout"),
        ("child two", "stderr"),
        ("handed over", "stderr"),
        ("the real stdout", "stdout"),
    ):
        assert (await driver.written_line(text))[0] == stream
    assert (driver.logs, driver.strikes) == ([], [])


@pytest.mark.requirement("P11-18")
async def test_a_flood_of_lines_is_dropped_and_counted(start: Any) -> None:
    driver = await start(PRINTS)
    flood = await driver.finished("flood", {"count": 5000})
    assert flood.is_well_formed
    kept = len(driver.logs)
    assert limits.LOG_RECORDS_BURST <= kept < limits.LOG_RECORDS_BURST + 300
    # The next line that is let through carries the count of those before it.
    more = 0
    while len(driver.logs) == kept:
        more += 1
        await driver.finished("flood", {"count": 1})
    assert driver.logs[-1].fields["dropped"] >= 1
    dropped = sum(record.fields.get("dropped", 0) for record in driver.logs)
    assert len(driver.logs) + dropped == 5000 + more
    assert driver.strikes == []


async def test_a_flood_from_a_thread_neither_blocks_the_loop_nor_grows_without_limit(start: Any) -> None:
    driver = await start(PRINTS)
    flood = driver.play("flood", {"count": 30_000, "thread": True})
    async with asyncio.timeout(120):
        for _ in range(5):
            await driver.host.ping()
    await flood.end()
    assert flood.is_well_formed
    assert driver.strikes == []


async def test_a_log_of_a_runner_never_fails_and_never_breaks_the_connection(start: Any) -> None:
    # In debug mode asyncio refuses what a thread must not do to the loop.
    driver = await start(PRINTS, env={"PYTHONASYNCIODEBUG": "1"})
    run = await driver.finished("logs")
    assert (run.text, run.last.type) == ("done", "run.completed"), run.last.data
    await driver.logged_line("from a thread")
    records = {record.message.split(" ")[0]: record for record in driver.logs}
    assert (records["plain"].level, records["plain"].fields, records["plain"].run_id) == ("error", {"a": 1}, run.run_id)
    for refused in ("not", "huge", "half", "integer", "deep", "nodes"):
        assert list(records[refused].fields) == ["fields_refused"], refused
    assert records["ValueError('not"].message == "ValueError('not text')"
    assert (len(records["long"].message), records["long"].fields["cut_characters"]) == (8192, 9005 - 8192)
    assert records["from"].fields == {"h": 1}
    assert driver.strikes == []


async def test_the_trace_of_a_crash_in_native_code_reaches_stderr(start: Any) -> None:
    driver = await start(PRINTS)
    run = driver.play("crash")
    assert (await run.end()).how == "lost"
    assert await driver.exit_code() < 0
    await driver.written_line("Segmentation fault")
    await driver.written_line("in crash")


async def test_endless_lines_are_kept_for_a_limited_number_of_runs() -> None:
    told: list[tuple[str, str | None]] = []
    with capture_output(lambda stream, line, cut, run_id: told.append((line, run_id))):
        for number in range(OPEN_LINES + 10):
            token = CURRENT_RUN.set(str(number))
            print(f"open {number}", end="")
            CURRENT_RUN.reset(token)
        early = list(told)
        end_lines("500")
        end_lines("500")
    assert early == [(f"open {number}", str(number)) for number in range(10)]
    assert told[10:] == [("open 500", "500")]


async def test_lines_of_a_thread_wait_in_a_limited_number_and_the_rest_is_counted() -> None:
    told: list[str] = []
    seen = asyncio.Event()

    def sink(stream: str, line: str, cut: int, run_id: str | None) -> None:
        told.append(line)
        if "dropped" in line:
            seen.set()

    with capture_output(sink):
        thread = threading.Thread(target=lambda: [print(number) for number in range(OUTPUT_LINES_WAITING + 50)])
        thread.start()
        thread.join()  # the loop cannot turn meanwhile
        async with asyncio.timeout(120):
            await seen.wait()
    assert told[:-1] == [str(number) for number in range(OUTPUT_LINES_WAITING)]
    assert told[-1].startswith("50 lines")

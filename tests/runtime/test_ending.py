"""How a real worker ends: with its channel, on a signal, on shutdown, and in spite of plugin code that does not."""

import asyncio
import contextlib
import os
import select
import signal
from typing import Any

import pytest

from bollard.wire import ChannelClosed

pytestmark = pytest.mark.full


RUNNERS = """
import multiprocessing, signal, subprocess, threading

@runner(name="waits")
async def waits(ctx: RunContext):
    yield "begun"
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0.01)
        os.write(2, b"cleaned up\\n")

@runner(name="short")
async def short(ctx: RunContext):
    yield "begun"
    await asyncio.sleep(0.2)
    yield " done"

@runner(name="stubborn")
async def stubborn(ctx: RunContext):
    yield "begun"
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

@runner(name="spinning", capabilities=["interrupt"])
async def spinning(ctx: RunContext):
    while True:
        try:
            yield "x"
        except asyncio.CancelledError:
            pass

@runner(name="floods")
async def floods(ctx: RunContext):
    os.write(2, b"flooding\\n")
    while True:
        yield "x" * 100_000

@runner(name="thread")
async def thread(ctx: RunContext):
    yield "begun"
    threading.Thread(target=time.sleep, args=(3600,)).start()
    await asyncio.to_thread(time.sleep, 3600)

@runner(name="unclosable")
class Unclosable:
    async def close(self):
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass
    async def run(self, ctx: RunContext):
        yield "begun"

@runner(name="exits")
class Exits:
    async def close(self):
        sys.exit(9)
    async def run(self, ctx: RunContext):
        if ctx.config.get("now"):
            os._exit(5)
        exiting = threading.Thread(target=sys.exit, args=(6,))
        exiting.start()
        exiting.join()
        yield "begun"

@runner(name="children")
async def children(ctx: RunContext):
    child = subprocess.Popen(["sleep", "3600"])
    yield str(child.pid)

def in_child():
    print("from a forked child")
    sys.stdout.flush()
    time.sleep(3600)

@runner(name="forks")
async def forks(ctx: RunContext):
    child = multiprocessing.get_context("fork").Process(target=in_child)
    child.start()
    yield str(child.pid)
    await ctx.api.state.get("runner", "go")
    child.terminate()
    await asyncio.to_thread(child.join, 10)
    yield f" {child.exitcode}"

@tool()
async def waits_too() -> str:
    '''Wait.'''
    await asyncio.sleep(3600)
"""


async def begun(driver: Any, *names: str) -> list[Any]:
    runs = [driver.play(name) for name in names]
    for run in runs:
        await run.until(1)
    return runs


@pytest.mark.requirement("P08-10", "P11-40")
async def test_a_closed_connection_cancels_the_runs_and_ends_the_process(start: Any) -> None:
    driver = await start(RUNNERS)
    await begun(driver, "waits", "waits")
    call = asyncio.create_task(driver.call_tool("waits_too", {}))
    await driver.host.ping()
    driver.host.close("enough")
    assert await driver.exit_code() == 0
    await driver.until(lambda: driver.lines.count(("stderr", "cleaned up")) == 2)
    with pytest.raises(ChannelClosed):
        await call


@pytest.mark.requirement("P08-10", "P11-10")
@pytest.mark.smoke
async def test_plugin_code_cannot_keep_the_process_after_the_grace(start: Any) -> None:
    async def ended(*names: str) -> None:
        driver = await start(RUNNERS)
        await begun(driver, *names)
        driver.host.close("enough")
        assert await driver.exit_code() == 0, names

    async def shut_down() -> None:
        driver = await start(RUNNERS)
        (stubborn,) = await begun(driver, "stubborn")
        await driver.host.shutdown(0)
        assert (await stubborn.end()).how == "answered"
        assert await driver.exit_code() == 0

    async def unread() -> None:
        driver = await start(RUNNERS)
        driver.process.transport.pause_reading()
        driver.play("floods")
        await driver.written_line("flooding")
        os.kill(driver.process.pid, signal.SIGTERM)
        assert await driver.exit_code() == 0

    await asyncio.gather(
        unread(),
        ended("stubborn", "unclosable"),
        ended("spinning"),
        ended("thread", "exits"),
        ended("unclosable"),
        shut_down(),
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_cancels_the_runs_and_ends_the_process(start: Any, number: signal.Signals) -> None:
    driver = await start(RUNNERS)
    (run,) = await begun(driver, "waits")
    os.kill(driver.process.pid, number)
    assert await driver.exit_code() == 0
    await driver.written_line("cleaned up")
    assert (await run.end()).how == "lost"


@pytest.mark.requirement("P11-09", "P11-10")
async def test_shutdown_lets_runs_finish_within_the_grace_and_cancels_the_rest(start: Any) -> None:
    driver = await start(RUNNERS)
    (short,) = await begun(driver, "short")
    asked = asyncio.create_task(driver.host.shutdown(5))
    await short.end()
    assert short.text == "begun done"
    await asked
    assert await driver.exit_code() == 0
    other = await start(RUNNERS)
    (waits,) = await begun(other, "waits")
    call = asyncio.create_task(other.call_tool("waits_too", {}))
    await other.host.ping()
    asked = asyncio.create_task(other.host.shutdown(1))
    await other.host.ping()
    refused = await other.play("short").end()
    assert (refused.how, "shutting down" in refused.reason) == ("refused", True)
    await waits.end()
    assert (waits.last.data["code"], waits.is_well_formed) == ("cancelled", True)
    assert (await call).is_error
    await asked
    assert await other.exit_code() == 0
    assert other.strikes == []


async def test_an_exiting_worker_is_noticed_at_once_and_an_exiting_thread_ends_nothing(start: Any) -> None:
    driver = await start(RUNNERS)
    assert (await driver.finished("exits")).text == "begun"
    run = driver.play("exits", {"now": True})
    assert (await run.end(2)).how == "lost"
    assert await driver.exit_code() == 5


async def test_children_inherit_no_connection_and_die_with_the_group(start: Any) -> None:
    driver = await start(RUNNERS)
    pid = int((await driver.finished("children")).text)
    assert not _sockets(pid)
    child = os.pidfd_open(pid)
    try:
        await driver.process.kill()
        # Killed with the group; when the kernel has taken it down is another matter.
        assert select.select([child], [], [], 10)[0]
    finally:
        os.close(child)


async def test_a_forked_child_has_no_connection_and_keeps_its_signals(start: Any) -> None:
    driver = await start(RUNNERS)
    held: list[Any] = []
    run = driver.play("forks", api={"state.get": held.append})
    await driver.until(lambda: held)
    pid = int(run.text)
    channel = _sockets(driver.process.pid)
    await driver.written_line("from a forked child")
    assert channel - _sockets(pid), "the child still holds the channel"
    held[0].answer({"value": 1, "version": 1})
    await run.end()
    assert run.text.split()[1] == str(-signal.SIGTERM)
    assert (await driver.finished("short")).text == "begun done"
    assert (driver.logs, driver.strikes) == ([], [])


def _sockets(pid: int) -> set[str]:
    found: set[str] = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # one that a program which is starting closed meanwhile
            found.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    return {target for target in found if target.startswith("socket:")}

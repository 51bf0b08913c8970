"""A plugin that misbehaves in the way its event names."""

import asyncio
import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

from bollard.sdk import RunContext, runner


def exhaust_memory() -> None:
    """Allocate and use memory until there is none left, as careless native code does."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    while True:
        ctypes.memset(libc.malloc(16 << 20), 1, 16 << 20)


async def read_much(ctx: RunContext, times: int) -> int:
    """Read a mebibyte several times at once; returns how often it was complete."""

    async def content():
        for _ in range(2):
            yield b"x" * (512 * 1024)

    stored = await ctx.api.artifacts.write("a.bin", "application/octet-stream", content())
    reads = [ctx.api.artifacts.read(stored.artifact_id, offset=0, length=1024 * 1024) for _ in range(times)]
    return sum(not read.has_more for read in await asyncio.gather(*reads))


@runner(label="Faulty", capabilities=["interrupt"], permissions={"artifacts": ["write", "read", "metadata"]})
async def faulty(ctx: RunContext):  # noqa: C901 -- one case for each fault
    match ctx.event.data["fault"]:
        case "segfault":
            yield ctx.delta("so far")
            await asyncio.sleep(0.05)
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "sleep":
            yield ctx.delta("asleep")
            await asyncio.sleep(3600)
        case "busy":
            yield ctx.delta("busy")
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.1)  # the delta leaves
            while True:
                time.monotonic()
        case "ignores_cancel":
            yield ctx.delta("deaf")
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    ctx.log("no")
        case "blocked":
            yield ctx.delta("blocked")
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.1)  # the delta leaves
            time.sleep(3600)  # noqa: ASYNC251 -- the fault
        case "mute":
            Path(ctx.event.data["mark"]).touch()  # noqa: ASYNC240 -- it blocks anyway
            time.sleep(3600)  # noqa: ASYNC251 -- the fault
        case "ignores_sigterm":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            yield ctx.delta("deaf to signals")
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(3600)
        case "memory":
            yield ctx.delta("hungry")
            await asyncio.sleep(0.1)  # the delta leaves
            exhaust_memory()
        case "deltas":
            for number in range(20_000):
                yield ctx.delta(f"{number} ")
        case "endless_deltas":
            while True:
                yield ctx.delta("x" * ctx.event.data.get("size", 100))
        case "logs":
            for number in range(20_000):
                ctx.log(f"line {number}")
                print("and a print", number)
        case "endless_logs":
            yield ctx.delta("talkative")
            while True:
                ctx.log("line " * 200)
                print("and a print " * 200)
                await asyncio.sleep(0)
        case "calls":
            calls = [asyncio.create_task(ctx.api.host.info()) for _ in range(2000)]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            yield ctx.completed(f"{sum(not isinstance(outcome, Exception) for outcome in outcomes)} answered")
        case "endless_calls":
            yield ctx.delta("curious")
            while True:
                await asyncio.gather(*(ctx.api.host.info() for _ in range(500)), return_exceptions=True)
        case "lingers":
            try:
                yield ctx.completed("done")
                yield ctx.finish()
            finally:
                await asyncio.sleep(3600)
        case "lingers_deaf":
            try:
                yield ctx.completed("done")
                yield ctx.finish()
            finally:
                while True:
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.sleep(3600)
        case "reads":
            yield ctx.completed(f"{await read_much(ctx, 30)} read")
        case "large":
            yield ctx.completed("x" * 1_000_000)
        case "yes":
            talker = await asyncio.create_subprocess_exec("yes")
            yield ctx.completed(f"{talker.pid}")
        case "giant":
            yield ctx.completed("x" * (2 * 1024 * 1024))
        case "none":
            yield ctx.completed("fine")
        case "silent":
            pass

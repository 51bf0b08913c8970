"""A plugin that misbehaves in the way its event names."""

import asyncio
import contextlib
import ctypes
import os
import time

from bollard.sdk import RunContext, runner


@runner(label="Faulty", capabilities=["interrupt"])
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
        case "deltas":
            for number in range(20_000):
                yield ctx.delta(f"{number} ")
        case "logs":
            for number in range(20_000):
                ctx.log(f"line {number}")
                print("and a print", number)
        case "calls":
            calls = [asyncio.create_task(ctx.api.host.info()) for _ in range(2000)]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            yield ctx.completed(f"{sum(not isinstance(outcome, Exception) for outcome in outcomes)} answered")
        case "giant":
            yield ctx.completed("x" * (2 * 1024 * 1024))
        case "none":
            yield ctx.completed("fine")
        case "silent":
            pass

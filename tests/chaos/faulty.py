"""A plugin that misbehaves in the way its event names."""

import asyncio
import ctypes
import os
import time

from bollard.sdk import RunContext, runner


@runner(label="Faulty", capabilities=["interrupt"])
async def faulty(ctx: RunContext):
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
            await asyncio.sleep(0.1)
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
        case "junk":
            os.write(int(os.environ["BOLLARD_CHANNEL_FD"]), b"this is no JSON\n" * ctx.event.data["times"])
            await asyncio.sleep(ctx.event.data.get("then_s", 0.2))
            yield ctx.completed("still here")
        case "silent":
            pass

"""A runner that listens while it works: it pulls between its steps and repeats every message."""

import asyncio

from bollard.sdk import RunContext, runner


@runner(label="Listener", capabilities=["interrupt", "steering"])
async def listener(ctx: RunContext):
    heard = [ctx.input.text or ""]
    for _ in range(ctx.event.data.get("steps", 6)):
        yield ctx.delta(".")
        await asyncio.sleep(ctx.event.data.get("pause_ms", 10) / 1000)
        heard += [item.input.text or "" for item in (await ctx.api.steering.pull()).items]
    yield ctx.completed(" ".join(heard))

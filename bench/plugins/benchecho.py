"""The runners of the host benchmark, in a single-file plugin."""

import asyncio

from bollard.sdk import RunContext, runner


@runner(name="default", label="Echo")
async def echo(ctx: RunContext):
    """Emits `event.data.deltas` deltas as fast as it can, then the final answer."""
    count = ctx.event.data["deltas"]
    if not isinstance(count, int):
        raise TypeError("event.data.deltas is a number")
    for index in range(count):
        yield ctx.delta(f"tok-{index:06d} ")
    yield ctx.completed("FINAL-ANSWER")


@runner(name="wait", label="Wait")
async def wait(ctx: RunContext):
    """Says one word and waits until it is cancelled."""
    yield ctx.delta("waiting")
    await asyncio.Event().wait()

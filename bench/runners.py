"""The runners of the wire benchmark, in a single-file plugin."""

import asyncio

from bollard.sdk import RunContext, runner


@runner(name="push", label="Push")
async def push(ctx: RunContext):
    """Emits `config.count` deltas as fast as it can, then the final answer."""
    count = ctx.config["count"]
    if not isinstance(count, int):
        raise TypeError("config.count is a number")
    for index in range(count):
        yield ctx.delta(f"tok-{index:06d} ")
    yield ctx.completed("FINAL-ANSWER")


@runner(name="ask", label="Ask")
async def ask(ctx: RunContext):
    """Makes `config.count` API calls one after the other."""
    count = ctx.config["count"]
    if not isinstance(count, int):
        raise TypeError("config.count is a number")
    for _ in range(count):
        await ctx.api.host.info()
    yield ctx.completed("FINAL-ANSWER")


@runner(name="wait", label="Wait")
async def wait(ctx: RunContext):
    """Says one word and waits until it is cancelled."""
    yield ctx.delta("waiting")
    await asyncio.Event().wait()

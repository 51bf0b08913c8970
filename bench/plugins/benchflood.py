"""A bad neighbour: a plugin, and so a worker process, of its own."""

import asyncio

from bollard.sdk import RunContext, runner


@runner(name="default", label="Flood")
async def flood(ctx: RunContext):
    """Emits deltas without pause until it is cancelled."""
    while True:
        yield ctx.delta("flood-flood-flood ")


@runner(name="ending", label="Flood with an end")
async def ending(ctx: RunContext):
    """Emits `event.data.bytes` bytes in deltas of `event.data.delta_bytes`, says `flooded`, and ends after
    `event.data.pause_s`."""
    size, delta_bytes, pause_s = (ctx.event.data[name] for name in ("bytes", "delta_bytes", "pause_s"))
    if not isinstance(size, int) or not isinstance(delta_bytes, int) or not isinstance(pause_s, int | float):
        raise TypeError("event.data has three numbers: bytes, delta_bytes, pause_s")
    text = "x" * delta_bytes
    for _ in range(size // delta_bytes):
        yield ctx.delta(text)
    yield ctx.tool_started("flooded", "flooded", {})
    await asyncio.sleep(pause_s)

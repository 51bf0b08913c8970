"""A bad neighbour: a plugin, and so a worker process, of its own."""

from bollard.sdk import RunContext, runner


@runner(label="Flood")
async def flood(ctx: RunContext):
    """Emits deltas without pause until it is cancelled."""
    while True:
        yield ctx.delta("flood-flood-flood ")

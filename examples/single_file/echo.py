"""The smallest runner: one function in one file."""

from bollard.sdk import RunContext, runner


@runner(name="default", label="Echo")
async def echo(ctx: RunContext):
    yield ctx.delta(f"you said: {ctx.input.text}")

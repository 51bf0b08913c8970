import asyncio

from bollard.sdk import RunContext, runner
from bollard.sdk.testing import MemoryHost


@runner(label="Echo", permissions={"history": ["page"]})
async def echo(ctx: RunContext):
    """Says what it heard."""
    yield ctx.delta("you said: ")
    yield ctx.delta(ctx.input.text or "nothing")


outcome = asyncio.run(MemoryHost().run(echo, "hello"))
assert (outcome.status, outcome.text) == ("completed", "you said: hello")

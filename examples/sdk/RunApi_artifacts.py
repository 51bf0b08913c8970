import asyncio

from bollard.sdk import RunContext, runner
from bollard.sdk.testing import MemoryHost


@runner(permissions={"artifacts": ["read", "write"]})
async def writer(ctx: RunContext):
    made = await ctx.api.artifacts.write("report.txt", "text/plain", [b"one ", b"two"])
    content = b"".join([piece async for piece in ctx.api.artifacts.stream(made.artifact_id)])
    yield content.decode()


assert asyncio.run(MemoryHost().run(writer, "write")).text == "one two"

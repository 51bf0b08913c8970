import asyncio
from contextlib import aclosing

from bollard.sdk import Message, RunContext, runner
from bollard.sdk.testing import MemoryHost, ScriptedModel


@runner(permissions={"models": ["invoke", "stream"]})
async def answer(ctx: RunContext):
    messages = [Message(role="user", content=ctx.input.text or "")]
    async with aclosing(ctx.api.models.stream("small", messages)) as chunks:
        async for chunk in chunks:
            yield ctx.delta(chunk)


host = MemoryHost(models={"small": ScriptedModel(["Rome"])})
assert asyncio.run(host.run(answer, "capital of Italy?")).text == "Rome"

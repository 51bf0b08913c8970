import asyncio

from bollard.sdk import RunContext, ToolContext, runner, tool
from bollard.sdk.testing import MemoryHost


@tool(risk="low")
def count_words(text: str, ctx: ToolContext) -> int:
    """Counts the words of a text."""
    assert ctx.run_id
    return len(text.split())


@runner(permissions={"tools": ["call"]})
async def counter(ctx: RunContext):
    answer = await ctx.api.tools.call("count_words", {"text": ctx.input.text})
    yield f"{answer.structured} words"


host = MemoryHost(tools=[count_words])
assert asyncio.run(host.run(counter, "one two three")).text == "3 words"

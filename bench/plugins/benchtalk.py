"""An agent that streams a Markdown answer at the pace of a fast model."""

import asyncio
import itertools

from bollard.sdk import RunContext, runner

TOKENS_PER_S = 200
PARAGRAPHS = (
    "## What the host did\n\n",
    "The host read the **event**, chose the agent and wrote `run.created` before anything else happened. "
    "Each record has a place in a chain, so a later change is found. See [the log](https://example.org/log).\n\n",
    "- the first reason is the order of the records\n- the second one is the lease\n- the third one is *time*\n\n",
    "```python\nasync def answer(ctx):\n    async for part in ctx.model.stream(ctx.input.text):\n"
    "        yield ctx.delta(part)\n```\n\n",
    "| part | rows | share |\n|---|---:|---:|\n| events | 12 400 | 18 % |\n| runs | 8 310 | 12 % |\n\n",
)


@runner(name="default", label="Talk")
async def talk(ctx: RunContext):
    """Says `event.data.tokens` tokens of about four letters, and a last sentence."""
    count = ctx.event.data["tokens"]
    if not isinstance(count, int):
        raise TypeError("event.data.tokens is a number")
    text = "".join(itertools.islice(itertools.cycle(PARAGRAPHS), count // 10 + 5))
    loop = asyncio.get_running_loop()
    started = loop.time()
    said = ""
    for index in range(count):
        await asyncio.sleep(max(0.0, started + index / TOKENS_PER_S - loop.time()))
        said += text[index * 4 : index * 4 + 4]
        yield ctx.delta(text[index * 4 : index * 4 + 4])
    last = "\n\nThe last word."
    yield ctx.delta(last)
    yield ctx.completed(said + last)

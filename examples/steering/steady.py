"""A runner that works in small steps and pulls steering messages between them.

It pulls at three moments: after a step, before the next one, and once more before it ends. Each step reads the history
and writes a number into the state, so that a revocation has an effect to show.
"""

import asyncio
from typing import Annotated, Final

from pydantic import BaseModel, Field

from bollard.sdk import AgentAPIException, Form, RunContext, runner

ENOUGH: Final = frozenset({"enough", "够了"})
"""The message that ends the work early."""


class SteadyConfig(BaseModel):
    """The configuration of an agent."""

    steps: Annotated[
        int,
        Field(ge=1, le=1000),
        Form(
            label={"en_US": "Steps", "zh_Hans": "步数"},
            description={"en_US": "How many steps the work takes.", "zh_Hans": "工作分成多少步。"},
        ),
    ] = 150
    pause_s: Annotated[
        float,
        Field(ge=0, le=10),
        Form(
            label={"en_US": "Pause", "zh_Hans": "停顿"},
            description={"en_US": "Seconds between two steps.", "zh_Hans": "两步之间的秒数。"},
        ),
    ] = 0.2


@runner(
    name="default",
    label={"en_US": "Steady", "zh_Hans": "稳步"},
    description={
        "en_US": "Works in small steps and listens between them; “enough” ends it.",
        "zh_Hans": "分步工作，每一步之后读取你的消息；收到“够了”就结束。",
    },
    capabilities=["streaming", "interrupt", "steering"],
    permissions={"history": ["page"]},
)
async def steady(ctx: RunContext[SteadyConfig]):
    """One line for each step, and one for each steering message."""
    for step in range(1, ctx.config.steps + 1):
        yield ctx.delta(f"step {step}: {await read(ctx)}, {await keep(ctx, step)}\n")
        await asyncio.sleep(ctx.config.pause_s)
        told = await listen(ctx)
        for words in told:
            yield ctx.delta(f"told: {words}\n")
        if ENOUGH & {words.strip().lower() for words in told}:
            break
    # Messages that arrived during the last output are read too: unread ones would get runs of their own.
    for words in await listen(ctx):
        yield ctx.delta(f"told: {words}\n")
    yield ctx.delta("done\n")


async def listen(ctx: RunContext[SteadyConfig]) -> list[str]:
    """The new steering messages. Without the permission the runner continues without them."""
    try:
        pulled = await ctx.api.steering.pull()
    except AgentAPIException:
        return []
    return [item.input.text or item.event.event_type for item in pulled.items]


async def read(ctx: RunContext[SteadyConfig]) -> str:
    """Read the newest messages of the conversation, or report why that fails."""
    try:
        await ctx.api.history.page(limit=10)
    except AgentAPIException as error:
        return f"history {error.code}"
    return "history read"


async def keep(ctx: RunContext[SteadyConfig], step: int) -> str:
    """Save the step in the conversation's state, or report why that fails."""
    try:
        await ctx.api.state.set("conversation", "step", step)
    except AgentAPIException as error:
        return f"state {error.code}"
    return "state kept"

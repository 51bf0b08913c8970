"""Steering messages: pulled between two steps, and added as messages of the user."""

from typing import Any, Final

from bollard.protocol import Message
from bollard.sdk.agent.media import input_content
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.agent.token_budget import Budget
from bollard.sdk.context import RunContext
from bollard.sdk.errors import AgentAPIException

AT_ONCE: Final = 20
"""Messages of one pull. The next pull returns the rest."""
FILE_TOKENS: Final = 2000
"""Tokens of an attached text file."""


async def pull_messages(ctx: RunContext[Any], config: AgentSettings, budget: Budget) -> list[Message]:
    """Pull the waiting messages. Empty if the run cannot be steered, or the pull fails."""
    if config.steering == "off" or not ctx.access.available_apis.steering_pull:
        return []
    try:
        if config.steering == "one-at-a-time":
            taken = await ctx.api.steering.pull("one-at-a-time")
        else:
            taken = await ctx.api.steering.pull("all", AT_ONCE)
    except AgentAPIException as error:
        ctx.log("messages for this run could not be pulled", "warning", code=error.code)
        return []
    found: list[Message] = []
    for each in taken.items:
        content, _ = await input_content(ctx, each.input, vision=budget.vision, file_tokens=FILE_TOKENS)
        if content:
            found.append(Message(role="user", content=content))
    return found

"""Messages that people send while a run works: taken up between two steps, as what a user says next."""

from typing import Any, Final

from bollard.protocol import Message
from bollard.sdk.agent.media import given_content
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.agent.token_budget import Budget
from bollard.sdk.context import RunContext
from bollard.sdk.errors import AgentAPIException

AT_ONCE: Final = 20
"""Messages that one pull takes. What is left comes with the next."""
FILE_TOKENS: Final = 2000
"""What is read of a text file that comes with such a message."""


async def pulled(ctx: RunContext[Any], config: AgentSettings, budget: Budget) -> list[Message]:
    """What was sent into the run since it last looked. A run that may not be told anything works on."""
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
        content, _ = await given_content(ctx, each.input, vision=budget.vision, file_tokens=FILE_TOKENS)
        if content:
            found.append(Message(role="user", content=content))
    return found

"""`Agent`: one object that serves the runs of a runner."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from bollard.sdk.agent.guard import Guard
from bollard.sdk.agent.hooks import Hooks
from bollard.sdk.agent.loop import AgentRun
from bollard.sdk.agent.model_request import prepare_request
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.agent.toolset import append_to_prompt, build_toolset, skills_text
from bollard.sdk.context import RunContext
from bollard.sdk.errors import ConfigError
from bollard.sdk.results import Result

CAPABILITIES: Final = (
    "streaming",
    "tool_calling",
    "knowledge_retrieval",
    "multimodal_input",
    "skill_authoring",
    "interrupt",
    "steering",
)
"""The capabilities of a runner that runs an `Agent`, for `@runner(capabilities=…)`."""
PERMISSIONS: Final[dict[str, tuple[str, ...]]] = {
    "models": ("invoke", "stream", "rerank"),
    "tools": ("detail", "call"),
    "knowledge_bases": ("list", "retrieve"),
    "history": ("page",),
    "events": ("page",),
    "artifacts": ("metadata", "read"),
    "agents": ("call",),
    "platform": ("request",),
}
"""The permissions that an `Agent` uses, for `@runner(permissions=…)`. Without one of them it works on with less."""


class Agent:
    """Answers with a model, its tools and its knowledge. Keeps nothing between runs, and serves many at once.

        async for result in Agent().run(ctx):
            yield result

    As a base class it makes a runner by itself: `@runner(…, config=MySettings) class Mine(Agent)`.
    """

    def __init__(self, hooks: Hooks | None = None, *, settings: AgentSettings | None = None) -> None:
        """Without `settings`, each run has its own: the configuration of its agent."""
        self._hooks = hooks or Hooks()
        self._settings = settings

    async def run(self, ctx: RunContext[AgentSettings]) -> AsyncGenerator[Result, None]:
        """Yield the results of one run, to its end.

        A run that is cancelled or fails completes its open message and its open calls first. Raises `ConfigError` if
        neither the agent nor the configuration of the run has settings.
        """
        settings = self._settings or _settings_of(ctx)
        one: AgentRun | None = None
        guard = Guard(settings, ctx.runtime.limits)
        try:
            toolset, prepared = await asyncio.gather(
                build_toolset(ctx, settings), prepare_request(ctx, settings, guard, self._hooks)
            )
            append_to_prompt(prepared.messages, skills_text(ctx))
            one = AgentRun(ctx, settings, self._hooks, toolset, prepared, guard)
            async with aclosing(one.results()) as results:
                async for result in results:
                    yield result
        except (Exception, asyncio.CancelledError) as error:
            why = "cancelled" if isinstance(error, asyncio.CancelledError) else "error"
            for result in () if one is None else one.close_open_messages(why):
                yield result
            raise


def _settings_of(ctx: RunContext[Any]) -> AgentSettings:
    if isinstance(ctx.config, AgentSettings):
        return ctx.config
    problem = "it is no AgentSettings; annotate the context as RunContext[AgentSettings], or pass settings to Agent"
    raise ConfigError("", problem)

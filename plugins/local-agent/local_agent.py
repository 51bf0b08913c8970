"""The local agent as something to build on: one object that serves many runs.

from agent_hooks import Hooks
from local_agent import CAPABILITIES, PERMISSIONS, LocalAgent

@runner(label="Polite", capabilities=CAPABILITIES, permissions=PERMISSIONS)
class Polite(LocalAgent):
    def __init__(self):
        super().__init__(PoliteHooks())
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from agent_config import AgentConfig
from agent_context import prepare
from agent_guard import Guard
from agent_hooks import Hooks
from agent_loop import AgentRun
from agent_offering import offering_of, skills_told, tell

from bollard.sdk import Result, RunContext

__all__ = ["CAPABILITIES", "PERMISSIONS", "LocalAgent"]

CAPABILITIES: Final = (
    "streaming",
    "tool_calling",
    "knowledge_retrieval",
    "multimodal_input",
    "skill_authoring",
    "interrupt",
    "steering",
)
PERMISSIONS: Final[dict[str, tuple[str, ...]]] = {
    "models": ("invoke", "stream", "rerank"),
    "tools": ("detail", "call"),
    "knowledge_bases": ("list", "retrieve"),
    "history": ("page",),
    "events": ("page",),
    "artifacts": ("metadata", "read"),
    "agents": ("call",),
}


class LocalAgent:
    """Answers with a model, its tools and what it knows. Keeps nothing between runs."""

    def __init__(self, hooks: Hooks | None = None) -> None:
        self._hooks = hooks or Hooks()

    async def run(self, ctx: RunContext[AgentConfig]) -> AsyncGenerator[Result, None]:
        """One run, to its end. A run that is cancelled completes what it had begun to say first."""
        one: AgentRun | None = None
        guard = Guard(ctx.config, ctx.runtime.limits)
        try:
            offering, prepared = await asyncio.gather(offering_of(ctx, ctx.config), prepare(ctx, ctx.config, guard))
            tell(prepared.messages, skills_told(ctx))
            one = AgentRun(ctx, self._hooks, offering, prepared, guard)
            async with aclosing(one.results()) as results:
                async for result in results:
                    yield result
        except (Exception, asyncio.CancelledError) as error:
            # Whatever ends it, a call that was asked for has a result, and what people saw is a message.
            why = "cancelled" if isinstance(error, asyncio.CancelledError) else "error"
            for result in () if one is None else one.last_words(why):
                yield result
            raise

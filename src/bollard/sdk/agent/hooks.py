"""`Hooks`: the moments of a run at which an author changes what an `Agent` does. Override the ones you need.

One object serves many runs: data about a run belongs into state, not into the object. An exception of a hook fails the
run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bollard.protocol import FunctionTool, JsonObject, Message, ToolCall
from bollard.sdk.context import RunContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request to a model, before it is sent."""

    step: int
    """1, 2, 3 … within the run."""
    messages: tuple[Message, ...]
    tools: tuple[FunctionTool, ...] = ()
    extra_args: JsonObject = field(default_factory=dict[str, Any])
    """Arguments of the provider: `temperature`, `max_tokens`, `tool_choice`, `response_format`."""


class Hooks:
    """Seven moments of a run. Each default changes nothing.

    class Careful(Hooks):
        async def before_tools(self, ctx, calls):
            return {call.id: "not on a Sunday" for call in calls if call.function.name == "pay"}

    Agent(Careful())
    """

    async def before_model(self, ctx: RunContext[Any], turn: Turn) -> Turn:
        """Return the request to send. A change holds for this turn only."""
        del ctx
        return turn

    async def after_model(self, ctx: RunContext[Any], answer: Message) -> Message:
        """Return the answer to record. It overrides what was streamed of it. Tool calls must keep their ids."""
        del ctx
        return answer

    async def before_tools(self, ctx: RunContext[Any], calls: Sequence[ToolCall]) -> Mapping[str, str]:
        """Return the calls to skip, by their ids, with the text that the model reads instead of a result."""
        del ctx, calls
        return {}

    async def after_tools(self, ctx: RunContext[Any], results: Sequence[Message]) -> Sequence[Message]:
        """Return the results that the model reads: one message for each call, in the same order."""
        del ctx
        return results

    async def finishing(self, ctx: RunContext[Any], answer: Message) -> str | None:
        """Return a message to continue with, in the role of the user, or `None` to let the run end."""
        del ctx, answer
        return None

    async def before_compaction(self, ctx: RunContext[Any], summary: str, messages: Sequence[Message]) -> str | None:
        """Return a new summary that replaces the summary so far and the older messages, or `None` to ask the model."""
        del ctx, summary, messages
        return None

    async def after_compaction(self, ctx: RunContext[Any], summary: str) -> str:
        """Return the summary to keep for later runs of the conversation."""
        del ctx
        return summary


NO_HOOKS: Final = Hooks()

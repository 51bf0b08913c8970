"""Where an author who builds on the local agent may step in. Override what you need; the rest does nothing.

A hook sees one run at a time but serves many: what it keeps about a run belongs into state, not into the object.
What a hook raises is the run's failure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bollard.sdk import FunctionTool, JsonObject, Message, RunContext, ToolCall

__all__ = ["Hooks", "Turn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One question to a model, as it will be asked."""

    step: int
    """1, 2, 3 … within the run."""
    messages: tuple[Message, ...]
    tools: tuple[FunctionTool, ...] = ()
    extra_args: JsonObject = field(default_factory=dict[str, Any])


class Hooks:
    """Five moments of a run."""

    async def before_model(self, ctx: RunContext[Any], turn: Turn) -> Turn:
        """The question, changed or as it is. The change holds for this turn only."""
        del ctx
        return turn

    async def after_model(self, ctx: RunContext[Any], answer: Message) -> Message:
        """The answer before it is kept. What was streamed of it has been seen; the message that is returned stands over
        it. Tool calls must keep their ids."""
        del ctx
        return answer

    async def before_tools(self, ctx: RunContext[Any], calls: Sequence[ToolCall]) -> Mapping[str, str]:
        """Calls that are not to be made, by their ids, with what the model is told instead."""
        del ctx, calls
        return {}

    async def after_tools(self, ctx: RunContext[Any], results: Sequence[Message]) -> Sequence[Message]:
        """What the model will read of the tools. One message for each call, in the same order."""
        del ctx
        return results

    async def finishing(self, ctx: RunContext[Any], answer: Message) -> str | None:
        """Something to go on with, said to the model as a user's words; nothing lets the run end."""
        del ctx, answer
        return None

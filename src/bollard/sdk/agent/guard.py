"""How far a run may go: steps, calls, cost, and a model that asks for the same thing again and again. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from bollard.protocol import JsonObject, Message, ToolCall
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.agent.tool_batch import arguments_of

SAME_CALLS: Final = 3
"""The same call this often is answered with a word instead; once more ends the run."""
SUMMARIES_SHARE: Final = 0.5
"""Of what a run may cost: beyond it no model is asked for a summary, so that something is left for the answer."""

Stop = Literal["max_steps", "max_cost", "repeated_calls"]
"""Why a run ends before its model is done."""


@dataclass(slots=True)
class Guard:
    """What one run has used up."""

    config: AgentSettings
    advised: JsonObject = field(default_factory=dict[str, Any])
    """The host's own limits of the run: `steps`, `calls`, `cost`."""
    steps: int = 0
    """Answers."""
    summaries: int = 0
    """Answers too, but to the agent: they cost the same."""
    calls: int = 0
    cost: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    _seen: dict[str, int] = field(default_factory=dict[str, int])
    _stuck: bool = False

    def before_step(self) -> Stop | None:
        """Whether a model may be asked once more."""
        if self._stuck:
            return "repeated_calls"
        if self.steps_used >= self._most_steps:
            return "max_steps"
        return "max_cost" if self.cost >= self._most_cost else None

    @property
    def may_summarise(self) -> bool:
        """Whether a model may be asked for a summary: a step and a part of the cost stay for the answer."""
        return self.steps_used + 1 < self._most_steps and self.cost < SUMMARIES_SHARE * self._most_cost

    @property
    def steps_used(self) -> int:
        return self.steps + self.summaries

    @property
    def calls_left(self) -> int:
        return max(0, int(self._least(self.config.max_tool_calls, "calls")) - self.calls)

    def answered(self, answer: Message) -> None:
        """Count what an answer took. What a provider does not say is not counted."""
        self.steps += 1
        self._spent(answer)

    def summarised(self, summary: Message) -> None:
        """Count what a summary took, also one that was of no use."""
        self.summaries += 1
        self._spent(summary)

    def _spent(self, answer: Message) -> None:
        if answer.usage is not None:
            self.prompt_tokens += answer.usage.prompt_tokens or 0
            self.completion_tokens += answer.usage.completion_tokens or 0
        cost = (answer.metadata or {}).get("cost")
        if isinstance(cost, int | float) and not isinstance(cost, bool):
            self.cost += max(0.0, cost)

    def refused(self, calls: Sequence[ToolCall]) -> dict[str, str]:
        """The calls that are not made, by their ids, and what the model is told. Counts the others."""
        said: dict[str, str] = {}
        for call in calls:
            key = _key(call)
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] > SAME_CALLS:
                self._stuck = True
            if self._seen[key] >= SAME_CALLS:
                said[call.id] = (
                    f"Error: {call.function.name} was called with these arguments {SAME_CALLS - 1} times already, and "
                    "is not called again. Use what it answered, try something else, or say what is missing."
                )
            elif self.calls_left == 0:
                said[call.id] = "Error: this run has made all the calls it may make. Answer with what you have."
            else:
                self.calls += 1
        return said

    @property
    def _most_steps(self) -> float:
        return self._least(self.config.max_steps, "steps")

    @property
    def _most_cost(self) -> float:
        return self._least(self.config.max_cost, "cost")

    def _least(self, own: float | None, name: str) -> float:
        told = self.advised.get(name)
        limits = [each for each in (own, told) if isinstance(each, int | float) and not isinstance(each, bool)]
        return min(limits, default=float("inf"))


def _key(call: ToolCall) -> str:
    arguments = arguments_of(call)
    text = call.function.arguments if arguments is None else json.dumps(arguments, sort_keys=True, ensure_ascii=False)
    return f"{call.function.name} {text}"

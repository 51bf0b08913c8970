"""`Guard`: the limits of one run: steps, calls, cost, and repeated calls. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from bollard.protocol import JsonObject, Message, ToolCall
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.agent.tool_batch import arguments_of

SAME_CALLS: Final = 3
"""The third identical call is refused; the fourth ends the run."""
SUMMARIES_SHARE: Final = 0.5
"""Share of the cost limit for summaries; the rest is reserved for the answer."""

Stop = Literal["max_steps", "max_cost", "repeated_calls"]
"""Why a run ends before its model has answered."""


@dataclass(slots=True)
class Guard:
    """The limits of one run, and their use."""

    config: AgentSettings
    advised: JsonObject = field(default_factory=dict[str, Any])
    """The host's own limits of the run: `steps`, `calls`, `cost`."""
    steps: int = 0
    """Answers of a model."""
    summaries: int = 0
    """Summaries of a model. They count as steps."""
    calls: int = 0
    cost: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    _seen: dict[str, int] = field(default_factory=dict[str, int])
    _stuck: bool = False

    def before_step(self) -> Stop | None:
        """The reason to stop, or `None` if the model may be asked again."""
        if self._stuck:
            return "repeated_calls"
        if self.steps_used >= self._most_steps:
            return "max_steps"
        return "max_cost" if self.cost >= self._most_cost else None

    @property
    def may_summarise(self) -> bool:
        """Whether a model may write a summary. One step and a share of the cost are reserved for the answer."""
        return self.steps_used + 1 < self._most_steps and self.cost < SUMMARIES_SHARE * self._most_cost

    @property
    def steps_used(self) -> int:
        return self.steps + self.summaries

    @property
    def calls_left(self) -> int:
        return max(0, int(self._least(self.config.max_tool_calls, "calls")) - self.calls)

    def count_answer(self, answer: Message) -> None:
        """Count an answer with its tokens and cost, as far as the provider reports them."""
        self.steps += 1
        self._spent(answer)

    def count_summary(self, summary: Message) -> None:
        """Count a summary with its tokens and cost, also an unusable one."""
        self.summaries += 1
        self._spent(summary)

    def _spent(self, answer: Message) -> None:
        if answer.usage is not None:
            self.prompt_tokens += answer.usage.prompt_tokens or 0
            self.completion_tokens += answer.usage.completion_tokens or 0
        cost = (answer.metadata or {}).get("cost")
        if isinstance(cost, int | float) and not isinstance(cost, bool):
            self.cost += max(0.0, cost)

    def refuse_calls(self, calls: Sequence[ToolCall]) -> dict[str, str]:
        """The refused calls, by id, with the text for the model. Counts the others."""
        refusals: dict[str, str] = {}
        for call in calls:
            key = _key(call)
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] > SAME_CALLS:
                self._stuck = True
            if self._seen[key] >= SAME_CALLS:
                refusals[call.id] = (
                    f"Error: {call.function.name} was called with these arguments {SAME_CALLS - 1} times already, and "
                    "is not called again. Use what it answered, try something else, or say what is missing."
                )
            elif self.calls_left == 0:
                refusals[call.id] = "Error: this run has made all the calls it may make. Answer with what you have."
            else:
                self.calls += 1
        return refusals

    @property
    def _most_steps(self) -> float:
        return self._least(self.config.max_steps, "steps")

    @property
    def _most_cost(self) -> float:
        return self._least(self.config.max_cost, "cost")

    def _least(self, own: float | None, name: str) -> float:
        advised = self.advised.get(name)
        limits = [each for each in (own, advised) if isinstance(each, int | float) and not isinstance(each, bool)]
        return min(limits, default=float("inf"))


def _key(call: ToolCall) -> str:
    arguments = arguments_of(call)
    text = call.function.arguments if arguments is None else json.dumps(arguments, sort_keys=True, ensure_ascii=False)
    return f"{call.function.name} {text}"

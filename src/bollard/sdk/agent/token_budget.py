"""How many tokens a question may have, and a question that keeps to it: `Budget`, `Prepared`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bollard.protocol import FunctionTool, JsonObject, Message, Usage
from bollard.sdk.agent.checkpoint import Checkpoint
from bollard.sdk.agent.history import Said
from bollard.sdk.agent.retrieval import Source
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.agent.tokens import Scale, count
from bollard.sdk.context import RunContext
from bollard.sdk.results import Result

SCALE_KEY: Final = "local_agent.token_scale"
"""State of the conversation: what each model's provider counts for a token that is counted here."""
SCALE_MODELS: Final = 8
SCALE_MOVED: Final = 0.1
"""A change below it is not worth a write."""
ANSWER_TOKENS: Final = 4096
"""Kept free for the answer where nobody says how long it may be; no more than a quarter of the window."""
MARGIN: Final = 0.04
"""Of the window: what the provider adds, and what the counter may be wrong by."""
LEAST_TOKENS: Final = 256
REQUEST_TOKENS: Final = 160_000
"""Whatever the window: a call of the host's API is at most 1 MiB of JSON."""
NEARLY: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What the model that will be asked takes."""

    model_id: str
    tokens: int
    """For prompt, tools and messages together, counted as `tokens` does."""
    vision: bool = False
    scale: Scale = field(default_factory=Scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A question to a model. Its messages stand in this order, what changes least first: prompt, summary, history,
    sources, input. A run adds its own behind them, to the same list."""

    messages: list[Message] = field(default_factory=list[Message])
    budget: Budget = field(default_factory=lambda: Budget(model_id="", tokens=LEAST_TOKENS))
    summary: Message | None = None
    """Which of the messages is the summary."""
    history: tuple[Said, ...] = ()
    """Which of the messages are the history, and where they stand in the transcript."""
    question: tuple[Message, ...] = ()
    """Which of the messages are the sources and the input."""
    checkpoint: Checkpoint | None = None
    own_seq: int | None = None
    """Where the input stands in the transcript, where that is known."""
    sources: list[Source] = field(default_factory=list[Source])
    notes: list[str] = field(default_factory=list[str])
    """What could not be shown to the model as it is, for whoever reads the run."""

    @property
    def prefix_tokens(self) -> int:
        """What is the same in the next run, as long as nothing is compacted."""
        at = position(self.messages, self.question)
        return count(self.messages[:at])


def position(messages: Sequence[Message], question: Sequence[Message]) -> int:
    """Where the question begins among messages that others may have added to; their end where it is not among them."""
    first = question[0] if question else None
    return next((at for at, message in enumerate(messages) if message is first), len(messages))


def budget_of(ctx: RunContext[Any], config: AgentSettings, model_id: str | None = None) -> Budget:
    """The budget of a model; of the first that is configured where none is named."""
    chosen = model_id or config.models[0]
    resource = next((each for each in ctx.resources.models if each.model_id == chosen), None)
    window = config.context_window if resource is None or resource.context_window is None else resource.context_window
    answer = min(config.max_tokens or ANSWER_TOKENS, window // 2 if config.max_tokens else window // 4)
    scale = Scale.of(_scales(ctx).get(chosen))
    real = window - answer - int(window * MARGIN)
    tokens = max(LEAST_TOKENS, min(REQUEST_TOKENS, scale.counted(real)))
    return Budget(model_id=chosen, tokens=tokens, vision=resource is not None and resource.vision is True, scale=scale)


def nears_budget(ctx: RunContext[Any], config: AgentSettings, used_tokens: int) -> bool:
    """Whether the next turn may not fit, after one that used so many tokens by the provider's count."""
    budget = budget_of(ctx, config)
    return used_tokens > budget.scale.real(budget.tokens) * NEARLY


def learned(
    ctx: RunContext[Any], budget: Budget, asked: Sequence[Message], tools: Sequence[FunctionTool], usage: Usage | None
) -> Result | None:
    """What to keep for the next run of what a provider counted; nothing where it told nothing new."""
    if usage is None or not ctx.access.available_apis.state or ctx.conversation is None:
        return None
    scale = budget.scale.observed(count(asked, tools), usage.prompt_tokens)
    if abs(scale.ratio - budget.scale.ratio) < SCALE_MOVED * budget.scale.ratio:
        return None
    others = [(model, ratio) for model, ratio in _scales(ctx).items() if model != budget.model_id]
    kept: JsonObject = dict([*others, (budget.model_id, round(scale.ratio, 3))][-SCALE_MODELS:])
    return ctx.state("conversation", SCALE_KEY, kept)


def _scales(ctx: RunContext[Any]) -> JsonObject:
    kept = ctx.state_snapshot.conversation.get(SCALE_KEY)
    return kept if isinstance(kept, dict) else {}

"""`Budget`: how many tokens a request may have. `PreparedRequest`: a request within its budget."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bollard.protocol import FunctionTool, JsonObject, Message, Usage
from bollard.sdk.agent.checkpoint import Checkpoint
from bollard.sdk.agent.history import TranscriptMessage
from bollard.sdk.agent.retrieval import Source
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.agent.tokens import Scale, count
from bollard.sdk.context import RunContext
from bollard.sdk.results import Result

SCALE_KEY: Final = "local_agent.token_scale"
"""State of the conversation: by model, the provider's tokens for one token counted here. Its name is kept: states of
earlier versions have it."""
SCALE_MODELS: Final = 8
SCALE_MOVED: Final = 0.1
"""A smaller change is not stored."""
ANSWER_TOKENS: Final = 4096
"""Reserved for the answer without `max_tokens`; at most a quarter of the window."""
MARGIN: Final = 0.04
"""Share of the window for the additions of the provider and the error of the counter."""
LEAST_TOKENS: Final = 256
REQUEST_TOKENS: Final = 160_000
"""Upper limit for every window: a call of the host's API has at most 1 MiB of JSON."""
NEARLY: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The room of the model that will be asked."""

    model_id: str
    tokens: int
    """Prompt, tools and messages together, as `tokens` counts them."""
    vision: bool = False
    scale: Scale = field(default_factory=Scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """A request to a model. The messages that change least come first: prompt, summary, history, sources, input. The
    run appends its own to the same list."""

    messages: list[Message] = field(default_factory=list[Message])
    budget: Budget = field(default_factory=lambda: Budget(model_id="", tokens=LEAST_TOKENS))
    summary: Message | None = None
    """The summary among the messages."""
    history: tuple[TranscriptMessage, ...] = ()
    """The history among the messages, with positions in the transcript."""
    question: tuple[Message, ...] = ()
    """The sources and the input among the messages."""
    checkpoint: Checkpoint | None = None
    own_seq: int | None = None
    """The position of the input in the transcript, if it is known."""
    sources: list[Source] = field(default_factory=list[Source])
    notes: list[str] = field(default_factory=list[str])
    """Content that the model could not read as it is. Shown in the run."""

    @property
    def prefix_tokens(self) -> int:
        """Tokens that the next run repeats, as long as nothing is compacted."""
        at = position(self.messages, self.question)
        return count(self.messages[:at])


def position(messages: Sequence[Message], question: Sequence[Message]) -> int:
    """The index of the question in the messages; their length if it is not among them."""
    first = question[0] if question else None
    return next((at for at, message in enumerate(messages) if message is first), len(messages))


def budget_of(ctx: RunContext[Any], config: AgentSettings, model_id: str | None = None) -> Budget:
    """The budget of a model, by default of the first configured one."""
    chosen = model_id or config.models[0]
    resource = next((each for each in ctx.resources.models if each.model_id == chosen), None)
    window = config.context_window if resource is None or resource.context_window is None else resource.context_window
    answer = min(config.max_tokens or ANSWER_TOKENS, window // 2 if config.max_tokens else window // 4)
    scale = Scale.of(_scales(ctx).get(chosen))
    real = window - answer - int(window * MARGIN)
    tokens = max(LEAST_TOKENS, min(REQUEST_TOKENS, scale.counted(real)))
    return Budget(model_id=chosen, tokens=tokens, vision=resource is not None and resource.vision is True, scale=scale)


def nears_budget(ctx: RunContext[Any], config: AgentSettings, used_tokens: int) -> bool:
    """Whether the next turn may exceed the budget, after one with this many tokens of the provider."""
    budget = budget_of(ctx, config)
    return used_tokens > budget.scale.real(budget.tokens) * NEARLY


def learned_scale(
    ctx: RunContext[Any], budget: Budget, asked: Sequence[Message], tools: Sequence[FunctionTool], usage: Usage | None
) -> Result | None:
    """The state update with the token count of a provider, or `None` without news."""
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

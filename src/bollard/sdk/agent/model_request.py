"""What a model is shown: prompt, summary, history, sources and input, within the budget of the model that is asked.

The order is what changes least first, and nothing in the first part depends on the clock or on chance: from one run to
the next a provider finds the same bytes again and reads them from its cache.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from bollard.protocol import Message, TextContent
from bollard.sdk.agent.checkpoint import Checkpoint, checkpoint_of
from bollard.sdk.agent.compaction import boundary, compacted, count_of, summary_tokens
from bollard.sdk.agent.guard import Guard
from bollard.sdk.agent.history import History, Said, paired, text_of, with_name
from bollard.sdk.agent.hooks import NO_HOOKS, Hooks
from bollard.sdk.agent.media import given_content, without_images
from bollard.sdk.agent.retrieval import INSTRUCTION, Source, bases_of, query_of, sources_for, sources_message
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.agent.summary import summary_message
from bollard.sdk.agent.token_budget import Budget, Prepared, budget_of
from bollard.sdk.agent.tokens import count_message, count_text, cut_to_tokens
from bollard.sdk.context import RunContext

TAIL_PAGES: Final = 20
"""Pages of history that a run reads to fill its budget."""
SOURCES_SHARE: Final = 4
"""Sources are at most a quarter of the budget."""
FILE_SHARE: Final = 4
INPUT_SHARE: Final = 2
MESSAGE_SHARE: Final = 3
"""One message of the history is at most a third of the budget, however long it was."""
IMAGES_MOST: Final = 8
"""Pictures of the history that are shown again."""
EVENT_CHARACTERS: Final = 4000
TOOL_TOKENS: Final = 100
"""What a tool costs beside its description; its schema is not known when a context is made."""
_SCHEMA: Final = "Answer with JSON alone, without a word before or after it. It must fit this JSON schema:\n{schema}"


async def prepare(ctx: RunContext[Any], config: AgentSettings, guard: Guard, hooks: Hooks = NO_HOOKS) -> Prepared:
    """The question that a run begins with. An author steps in when it is asked: `before_model`."""
    budget = budget_of(ctx, config)
    prompt = _prompt(ctx, config)
    given, notes = await _input(ctx, budget)
    asks_bases = bool(bases_of(ctx, config))
    room = budget.tokens - _offered_tokens(ctx) - count_message(given) - sum(count_message(each) for each in prompt)
    room = max(0, room - (budget.tokens // SOURCES_SHARE if asks_bases else 0))
    history, checkpoint, said, behind = await _remembered(ctx, config, budget, room, guard, hooks)
    if behind:
        notes.append("earlier messages are neither shown nor summarised yet")
    if history.several_people and (name := history.name_of(ctx.event.event_id)) is not None:
        given = with_name(given, name)
    sources: list[Source] = []
    if asks_bases:
        query = query_of(_asked(ctx), _last_words(said))
        sources, problems = await sources_for(ctx, config, query, budget.tokens // SOURCES_SHARE)
        notes += problems
    question = (*((sources_message(sources),) if sources else ()), given)
    summary = None if checkpoint is None else _shown_summary(checkpoint, budget)
    return Prepared(
        messages=[*prompt, *([summary] if summary else []), *(each.message for each in said), *question],
        budget=budget,
        summary=summary,
        history=tuple(said),
        question=question,
        checkpoint=checkpoint,
        own_seq=history.own_seq,
        sources=sources,
        notes=notes,
    )


def _prompt(ctx: RunContext[Any], config: AgentSettings) -> list[Message]:
    """The prompt, with what the configuration implies. The same bytes in every run of the same agent."""
    parts = [config.prompt.strip()]
    if bases_of(ctx, config):
        parts.append(INSTRUCTION)
    if config.output_schema is not None:
        parts.append(_SCHEMA.format(schema=json.dumps(config.output_schema, ensure_ascii=False, sort_keys=True)))
    text = "\n\n".join(part for part in parts if part)
    return [Message(role="system", content=text)] if text else []


async def _input(ctx: RunContext[Any], budget: Budget) -> tuple[Message, list[str]]:
    """What set the run off, as a user's message. An event without words is told as data."""
    file_tokens = budget.tokens // FILE_SHARE
    content, notes = await given_content(ctx, ctx.input, vision=budget.vision, file_tokens=file_tokens)
    if not content:
        content = _event(ctx)
    if isinstance(content, str):
        content = cut_to_tokens(content, budget.tokens // INPUT_SHARE)
    return Message(role="user", content=content), notes


def _event(ctx: RunContext[Any]) -> str:
    data = json.dumps(ctx.event.data, ensure_ascii=False, sort_keys=True)[:EVENT_CHARACTERS]
    return f"[event {ctx.event.event_type}] {data}"


async def _remembered(
    ctx: RunContext[Any], config: AgentSettings, budget: Budget, room: int, guard: Guard, hooks: Hooks = NO_HOOKS
) -> tuple[History, Checkpoint | None, list[Said], bool]:
    """The checkpoint and the messages after it, compacted where they are too many."""
    history = History(ctx, vision=budget.vision)
    checkpoint = await checkpoint_of(ctx)
    said, complete = await _tail(history, checkpoint, room)
    used = budget.tokens - room + count_of(said) + _summary_cost(checkpoint, budget)
    behind = False
    if not complete or used > budget.tokens * config.compaction_at:
        done = await compacted(
            ctx, config, budget, history, checkpoint, said, room=room, complete=complete, guard=guard, hooks=hooks
        )
        checkpoint, behind = done.checkpoint, done.behind
        covered = -1 if checkpoint is None else checkpoint.covers_until
        said = [each for each in said if each.seq > covered]
    left = room - _summary_cost(checkpoint, budget)
    said = paired(history.named(_bounded(said, budget.tokens // MESSAGE_SHARE)))
    shown = said[boundary(said, left) :]
    return history, checkpoint, _newest_images(shown), behind or len(shown) < len(said)


async def _tail(history: History, checkpoint: Checkpoint | None, room: int) -> tuple[list[Said], bool]:
    """The newest messages after the checkpoint, one page more than fits; and whether that is all of them."""
    covered = -1 if checkpoint is None else checkpoint.covers_until
    said: list[Said] = []
    for _ in range(TAIL_PAGES):
        page = await history.older()
        fresh = [each for each in page if each.seq > covered]
        said = [*fresh, *said]
        if history.ended or len(fresh) < len(page):
            return said, True
        if count_of(said) > room:
            return said, False
    return said, False


def _bounded(said: list[Said], tokens: int) -> list[Said]:
    """No single message takes the room of all others."""
    return [
        replace(
            each,
            message=each.message.model_copy(update={"content": cut_to_tokens(each.message.content, tokens)}),
            tokens=tokens,
        )
        if each.tokens > tokens and isinstance(each.message.content, str)
        else each
        for each in said
    ]


def _newest_images(said: Sequence[Said]) -> list[Said]:
    """The newest pictures as they are, the others by name: a call takes so many."""
    found, left = list(said), IMAGES_MOST
    for at in range(len(found) - 1, -1, -1):
        content = found[at].message.content
        pictures = 0 if isinstance(content, str) else sum(not isinstance(part, TextContent) for part in content)
        left -= pictures
        if pictures and left < 0:
            (words,) = without_images([found[at].message])
            found[at] = replace(found[at], message=words, tokens=count_message(words))
    return found


def _summary_cost(checkpoint: Checkpoint | None, budget: Budget) -> int:
    return 0 if checkpoint is None else count_message(_shown_summary(checkpoint, budget))


def _shown_summary(checkpoint: Checkpoint, budget: Budget) -> Message:
    """Another model may have written it, with more room than this one has."""
    return summary_message(cut_to_tokens(checkpoint.summary, summary_tokens(budget)))


def _offered_tokens(ctx: RunContext[Any]) -> int:
    """What tools, agents and skills will take, as far as that is known."""
    offered = (*ctx.resources.tools, *ctx.resources.agents, *ctx.resources.skills)
    return sum(TOOL_TOKENS + count_text(each.description or "") for each in offered)


def _asked(ctx: RunContext[Any]) -> str:
    given = ctx.input
    return given.text or " ".join(str(getattr(part, "text", "")) for part in given.contents).strip()


def _last_words(said: list[Said]) -> str | None:
    """What a user said last before this."""
    return next((text_of(each.message) for each in reversed(said) if each.message.role == "user"), None)

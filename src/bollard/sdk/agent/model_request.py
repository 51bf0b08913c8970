"""The first request of a run: prompt, summary, history, sources and input, within the token budget of the model.

The parts that change least come first, and the prompt depends on neither time nor chance, so that the prompt cache of a
provider applies from run to run.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from bollard.protocol import Message, TextContent
from bollard.sdk.agent.checkpoint import Checkpoint, load_checkpoint
from bollard.sdk.agent.compaction import boundary, compact, summary_tokens, total_tokens
from bollard.sdk.agent.guard import Guard
from bollard.sdk.agent.history import History, TranscriptMessage, pair_calls, text_of, with_name
from bollard.sdk.agent.hooks import NO_HOOKS, Hooks
from bollard.sdk.agent.media import input_content, without_images
from bollard.sdk.agent.retrieval import INSTRUCTION, Source, bases_of, build_query, find_sources, sources_message
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.agent.summary import summary_message
from bollard.sdk.agent.token_budget import Budget, PreparedRequest, budget_of
from bollard.sdk.agent.tokens import count_message, count_text, cut_to_tokens
from bollard.sdk.context import RunContext

TAIL_PAGES: Final = 20
"""Pages of history for one request at most."""
SOURCES_SHARE: Final = 4
"""Sources have at most a quarter of the budget."""
FILE_SHARE: Final = 4
INPUT_SHARE: Final = 2
MESSAGE_SHARE: Final = 3
"""One message of the history has at most a third of the budget."""
IMAGES_MOST: Final = 8
"""Images of the history in one request."""
EVENT_CHARACTERS: Final = 4000
TOOL_TOKENS: Final = 100
"""Tokens of a tool besides its description: its schema is not known yet."""
_SCHEMA: Final = "Answer with JSON alone, without a word before or after it. It must fit this JSON schema:\n{schema}"


async def prepare_request(
    ctx: RunContext[Any], config: AgentSettings, guard: Guard, hooks: Hooks = NO_HOOKS
) -> PreparedRequest:
    """Build the first request of a run. The hook `before_model` can change it before it is sent."""
    budget = budget_of(ctx, config)
    prompt = _prompt(ctx, config)
    given, notes = await _input(ctx, budget)
    asks_bases = bool(bases_of(ctx, config))
    room = budget.tokens - _offered_tokens(ctx) - count_message(given) - sum(count_message(each) for each in prompt)
    room = max(0, room - (budget.tokens // SOURCES_SHARE if asks_bases else 0))
    history, checkpoint, transcript, behind = await _load_history(ctx, config, budget, room, guard, hooks)
    if behind:
        notes.append("earlier messages are neither shown nor summarised yet")
    if history.several_people and (name := history.name_of(ctx.event.event_id)) is not None:
        given = with_name(given, name)
    sources: list[Source] = []
    if asks_bases:
        query = build_query(_asked(ctx), _last_words(transcript))
        sources, problems = await find_sources(ctx, config, query, budget.tokens // SOURCES_SHARE)
        notes += problems
    question = (*((sources_message(sources),) if sources else ()), given)
    summary = None if checkpoint is None else _shown_summary(checkpoint, budget)
    return PreparedRequest(
        messages=[*prompt, *([summary] if summary else []), *(each.message for each in transcript), *question],
        budget=budget,
        summary=summary,
        history=tuple(transcript),
        question=question,
        checkpoint=checkpoint,
        own_seq=history.own_seq,
        sources=sources,
        notes=notes,
    )


def _prompt(ctx: RunContext[Any], config: AgentSettings) -> list[Message]:
    """The system message: the prompt, and instructions for sources and output schema. Equal in all runs of an agent."""
    parts = [config.prompt.strip()]
    if bases_of(ctx, config):
        parts.append(INSTRUCTION)
    if config.output_schema is not None:
        parts.append(_SCHEMA.format(schema=json.dumps(config.output_schema, ensure_ascii=False, sort_keys=True)))
    text = "\n\n".join(part for part in parts if part)
    return [Message(role="system", content=text)] if text else []


async def _input(ctx: RunContext[Any], budget: Budget) -> tuple[Message, list[str]]:
    """The input as a message of the user. An event without text is shown as JSON."""
    file_tokens = budget.tokens // FILE_SHARE
    content, notes = await input_content(ctx, ctx.input, vision=budget.vision, file_tokens=file_tokens)
    if not content:
        content = _event(ctx)
    if isinstance(content, str):
        content = cut_to_tokens(content, budget.tokens // INPUT_SHARE)
    return Message(role="user", content=content), notes


def _event(ctx: RunContext[Any]) -> str:
    data = json.dumps(ctx.event.data, ensure_ascii=False, sort_keys=True)[:EVENT_CHARACTERS]
    return f"[event {ctx.event.event_type}] {data}"


async def _load_history(
    ctx: RunContext[Any], config: AgentSettings, budget: Budget, room: int, guard: Guard, hooks: Hooks = NO_HOOKS
) -> tuple[History, Checkpoint | None, list[TranscriptMessage], bool]:
    """The checkpoint and the messages after it, after compaction if there are too many."""
    history = History(ctx, vision=budget.vision)
    checkpoint = await load_checkpoint(ctx)
    transcript, complete = await _tail(history, checkpoint, room)
    used = budget.tokens - room + total_tokens(transcript) + _summary_cost(checkpoint, budget)
    behind = False
    if not complete or used > budget.tokens * config.compaction_at:
        done = await compact(
            ctx, config, budget, history, checkpoint, transcript, room=room, complete=complete, guard=guard, hooks=hooks
        )
        checkpoint, behind = done.checkpoint, done.behind
        covered = -1 if checkpoint is None else checkpoint.covers_until
        transcript = [each for each in transcript if each.seq > covered]
    left = room - _summary_cost(checkpoint, budget)
    transcript = pair_calls(history.with_names(_bounded(transcript, budget.tokens // MESSAGE_SHARE)))
    shown = transcript[boundary(transcript, left) :]
    return history, checkpoint, _newest_images(shown), behind or len(shown) < len(transcript)


async def _tail(history: History, checkpoint: Checkpoint | None, room: int) -> tuple[list[TranscriptMessage], bool]:
    """The newest messages after the checkpoint, up to the page that exceeds the room; and whether that is all."""
    covered = -1 if checkpoint is None else checkpoint.covers_until
    transcript: list[TranscriptMessage] = []
    for _ in range(TAIL_PAGES):
        page = await history.older()
        fresh = [each for each in page if each.seq > covered]
        transcript = [*fresh, *transcript]
        if history.ended or len(fresh) < len(page):
            return transcript, True
        if total_tokens(transcript) > room:
            return transcript, False
    return transcript, False


def _bounded(transcript: list[TranscriptMessage], tokens: int) -> list[TranscriptMessage]:
    """Cut messages that exceed their share."""
    return [
        replace(
            each,
            message=each.message.model_copy(update={"content": cut_to_tokens(each.message.content, tokens)}),
            tokens=tokens,
        )
        if each.tokens > tokens and isinstance(each.message.content, str)
        else each
        for each in transcript
    ]


def _newest_images(transcript: Sequence[TranscriptMessage]) -> list[TranscriptMessage]:
    """Keep the newest images, and replace older ones by their names."""
    found, left = list(transcript), IMAGES_MOST
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
    """The summary, cut to the budget: a model with a larger window may have written it."""
    return summary_message(cut_to_tokens(checkpoint.summary, summary_tokens(budget)))


def _offered_tokens(ctx: RunContext[Any]) -> int:
    """The estimated tokens of tools, agents and skills."""
    offered = (*ctx.resources.tools, *ctx.resources.agents, *ctx.resources.skills)
    return sum(TOOL_TOKENS + count_text(each.description or "") for each in offered)


def _asked(ctx: RunContext[Any]) -> str:
    given = ctx.input
    return given.text or " ".join(str(getattr(part, "text", "")) for part in given.contents).strip()


def _last_words(transcript: list[TranscriptMessage]) -> str | None:
    """The text of the last message of a user."""
    return next((text_of(each.message) for each in reversed(transcript) if each.message.role == "user"), None)

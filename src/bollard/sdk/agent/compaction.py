"""Compaction: older messages are summarised in bounded steps, and the summary is stored for later runs.

`compact` works on the transcript before the first request, `shrink_request` on a request that is too long. Each run
summarises a bounded part of a long history, oldest first; the next run continues.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bollard.protocol import Message, TextContent
from bollard.sdk.agent.checkpoint import Checkpoint, can_store, store_checkpoint
from bollard.sdk.agent.guard import Guard
from bollard.sdk.agent.history import History, TranscriptMessage
from bollard.sdk.agent.hooks import NO_HOOKS, Hooks
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.agent.summary import extract_summary, summarise, summary_message
from bollard.sdk.agent.token_budget import Budget, PreparedRequest, position
from bollard.sdk.agent.tokens import count, count_message, cut_to_tokens
from bollard.sdk.context import RunContext

STEPS: Final = 4
"""Summaries of one run at most."""
TIME_LEFT_S: Final = 90.0
"""No step begins later than this before the deadline; the time is reserved for the answer."""
BACKLOG_PAGES: Final = 100
"""Pages of older messages of one run at most."""
BACKLOG_CHARACTERS: Final = 8 * 1024 * 1024
STEP_TOKENS: Final = 32_000
STEP_SHARE: Final = 0.7
"""Share of the budget for the messages of one summary."""
SUMMARY_TOKENS: Final = 1200
SUMMARY_SHARE: Final = 6
"""A summary has at most a sixth of the budget."""
KEEP_OF_ROOM: Final = 0.8
SHRINK_TO: Final = 0.6
TOOL_ANSWER_TOKENS: Final = 120
"""Tokens of an older tool result after it was cut."""
LEFT_OUT: Final = "[earlier steps of this run were left out to save space]"


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    """The outcome of a compaction."""

    checkpoint: Checkpoint | None
    behind: bool = False
    """Whether some older messages are neither summarised nor in the request."""


def summary_tokens(budget: Budget) -> int:
    """The tokens of a summary at most."""
    return min(SUMMARY_TOKENS, budget.tokens // SUMMARY_SHARE)


def boundary(transcript: Sequence[TranscriptMessage], tokens: int) -> int:
    """The index of the oldest of the newest messages that fit into so many tokens. It is a message of a user: an answer
    without its question, or a tool result without its call, is useless."""
    at, left = len(transcript), tokens
    while at > 0 and transcript[at - 1].tokens <= left:
        at -= 1
        left -= transcript[at].tokens
    while 0 < at < len(transcript) and transcript[at].message.role != "user":
        at += 1
    return at


async def compact(
    ctx: RunContext[Any],
    config: AgentSettings,
    budget: Budget,
    history: History,
    checkpoint: Checkpoint | None,
    transcript: Sequence[TranscriptMessage],
    *,
    room: int,
    complete: bool,
    guard: Guard,
    hooks: Hooks = NO_HOOKS,
) -> CompactionOutcome:
    """Summarise the messages before the newest ones.

    `transcript` has the messages after the checkpoint that were read, `complete` says whether that is all of them, and
    `room` is their token limit in a request.
    """
    if not config.compaction or not can_store(ctx):
        return CompactionOutcome(checkpoint, behind=not complete)
    most = int((room - summary_tokens(budget)) * KEEP_OF_ROOM)  # a long prompt leaves less room
    at = boundary(transcript, max(0, min(int(budget.tokens * config.compaction_keep), most)))
    older = list(transcript[:at])
    until = transcript[at].seq if at < len(transcript) else (transcript[-1].seq + 1 if transcript else 0)
    if not complete:
        older, complete = await _backlog(history, checkpoint, older, until, STEPS * _step_tokens(budget))
    older = _settled(older, history.own_seq)
    reached, finished = await _advance(ctx, config, budget, checkpoint, older, total_tokens(transcript), guard, hooks)
    return CompactionOutcome(reached, behind=not (finished and complete))


def _settled(transcript: Sequence[TranscriptMessage], own_seq: int | None) -> list[TranscriptMessage]:
    return [each for each in transcript if own_seq is None or each.seq < own_seq]


def total_tokens(transcript: Sequence[TranscriptMessage]) -> int:
    return sum(each.tokens for each in transcript)


def _step_tokens(budget: Budget) -> int:
    return min(STEP_TOKENS, int(budget.tokens * STEP_SHARE) - summary_tokens(budget))


async def _backlog(
    history: History, checkpoint: Checkpoint | None, newer: list[TranscriptMessage], until: int, enough: int
) -> tuple[list[TranscriptMessage], bool]:
    """The messages between the checkpoint and `until`, oldest first, within the limits; and whether that is all.

    A cursor is valid in one run only, so a checkpoint cannot store one. The pages are read backward from the newest
    message; forward from the oldest if that is too far, or if there is no checkpoint.
    """
    if checkpoint is not None:
        read, characters = [newer], 0
        for _ in range(BACKLOG_PAGES):
            page = await history.older()
            fresh = [each for each in page if each.seq > checkpoint.covers_until]
            read.append(history.with_names(fresh))
            characters += sum(_characters(each) for each in fresh)
            if history.ended or len(fresh) < len(page):
                return [each for part in reversed(read) for each in part], True
            if characters > BACKLOG_CHARACTERS:
                break
    found, tokens, cursor = list[TranscriptMessage](), 0, None
    for _ in range(BACKLOG_PAGES):
        page, cursor = await history.from_start(cursor)
        fresh = [each for each in page if checkpoint is None or each.seq > checkpoint.covers_until]
        found += [each for each in history.with_names(fresh) if each.seq < until]
        tokens = total_tokens(found)
        if cursor is None or (fresh and fresh[-1].seq >= until):
            return found, True
        if tokens >= enough:
            break
    return found, False


def _characters(one: TranscriptMessage) -> int:
    content = one.message.content
    return len(content) if isinstance(content, str) else sum(len(getattr(part, "text", "")) for part in content)


async def _advance(
    ctx: RunContext[Any],
    config: AgentSettings,
    budget: Budget,
    checkpoint: Checkpoint | None,
    older: Sequence[TranscriptMessage],
    tokens_before: int,
    guard: Guard,
    hooks: Hooks,
) -> tuple[Checkpoint | None, bool]:
    """Add older messages to the summary, step by step. Returns the checkpoint, and whether it covers all of them."""
    at = 0
    for _ in range(STEPS):
        batch = _batch(older[at:], _step_tokens(budget))
        if not batch or (at > 0 and not _may_go_on(ctx, guard)):
            break
        before = "" if checkpoint is None else checkpoint.summary
        summary = await hooks.before_compaction(ctx, before, [each.message for each in batch])
        if summary is None:
            summary = await summarise(ctx, config.models, before, batch, summary_tokens(budget), guard)
        by_model = summary is not None
        text = summary or extract_summary(before, batch, summary_tokens(budget))
        if not text:
            break
        text = await hooks.after_compaction(ctx, text)
        new = Checkpoint.new(ctx, text, batch[-1].seq, tokens_before)
        checkpoint = await store_checkpoint(ctx, checkpoint, new)
        at += len(batch)
        if checkpoint is not new:  # another run was faster: its checkpoint covers these
            at = len([each for each in older if each.seq <= checkpoint.covers_until])
        if not by_model:
            break
    return checkpoint, at >= len(older)


def _may_go_on(ctx: RunContext[Any], guard: Guard) -> bool:
    """Whether time and limits allow another step. Otherwise the next run continues, with a model."""
    return guard.may_summarise and (ctx.time_left is None or ctx.time_left >= TIME_LEFT_S)


def _batch(transcript: Sequence[TranscriptMessage], tokens: int) -> list[TranscriptMessage]:
    """As many messages as fit, at least one. A larger message is cut in the summary request."""
    taken: list[TranscriptMessage] = []
    for each in transcript:
        if taken and tokens < each.tokens:
            break
        tokens -= each.tokens
        taken.append(each)
    return taken


# --- a request that is too long ---


async def shrink_request(
    ctx: RunContext[Any],
    config: AgentSettings,
    prepared: PreparedRequest,
    used_tokens: int,
    guard: Guard,
    hooks: Hooks = NO_HOOKS,
) -> PreparedRequest:
    """Shorten a request: summarise history, then cut older tool results, leave out older steps, and cut the longest
    texts. Only the summary outlives the run."""
    counted = count(prepared.messages)
    real = prepared.budget.scale.real(counted)
    target = int(min(counted, prepared.budget.tokens) * SHRINK_TO)
    if used_tokens > real > 0:  # tools, or a provider that counts more: only messages can shrink
        target = max(target // 2, int(target * real / used_tokens))
    prepared = await _with_less_history(ctx, config, prepared, target, guard, hooks)
    at = position(prepared.messages, prepared.question)
    turn_at = at + len(prepared.question)
    head, question, turn = prepared.messages[:at], prepared.messages[at:turn_at], prepared.messages[turn_at:]
    room = target - count(head)
    turn = _lighter_turn(turn, room - count(question))
    shorter = _cut_longest([*question, *turn], room)
    question, turn = shorter[: len(question)], shorter[len(question) :]
    return replace(prepared, messages=[*head, *question, *turn], question=tuple(question))


async def _with_less_history(
    ctx: RunContext[Any], config: AgentSettings, prepared: PreparedRequest, target: int, guard: Guard, hooks: Hooks
) -> PreparedRequest:
    """Move the oldest history into the summary, as much as the target requires."""
    if not prepared.history or count(prepared.messages) <= target:
        return prepared
    mine = {id(each.message) for each in prepared.history}
    others = [message for message in prepared.messages if id(message) not in mine]
    kept_at = boundary(prepared.history, max(0, target - count(others) - summary_tokens(prepared.budget)))
    older, kept = prepared.history[:kept_at], prepared.history[kept_at:]
    checkpoint = prepared.checkpoint
    if config.compaction and can_store(ctx):
        small = replace(prepared.budget, tokens=max(1, target))
        settled = _settled(older, prepared.own_seq)
        checkpoint, _ = await _advance(ctx, config, small, checkpoint, settled, count(prepared.messages), guard, hooks)
    summary = prepared.summary
    if checkpoint is not None and checkpoint is not prepared.checkpoint:
        summary = summary_message(cut_to_tokens(checkpoint.summary, summary_tokens(prepared.budget)))
    still = {id(each.message) for each in kept}
    messages: list[Message] = []
    for message in prepared.messages:
        if message is prepared.summary or (id(message) in mine and id(message) not in still):
            continue
        messages.append(message)
    if summary is not None:
        first = kept[0].message if kept else None
        at = next((at for at, message in enumerate(messages) if message is first), None)
        messages.insert(position(messages, prepared.question) if at is None else at, summary)
    return replace(prepared, messages=messages, history=tuple(kept), summary=summary, checkpoint=checkpoint)


def _lighter_turn(turn: Sequence[Message], room: int) -> list[Message]:
    """The messages of the run itself, within so many tokens: older tool results are cut, then older steps are left out.
    The newest step stays, because the model continues from it."""
    found = list(turn)
    steps = [at for at, message in enumerate(found) if message.role == "assistant"]
    last = steps[-1] if steps else 0
    for at in range(last):
        if count(found) <= room:
            return found
        if found[at].role == "tool":
            found[at] = _cut(found[at], TOOL_ANSWER_TOKENS)
    while count(found) > room and len(steps) > 1:
        begin, end = steps[0], steps[1]
        kept = [message for message in found[begin:end] if message.role == "user"]
        found[begin:end] = kept
        shift = end - begin - len(kept)
        steps = [at - shift for at in steps[1:]]
        if not any(message.content == LEFT_OUT for message in found):
            found.insert(begin, Message(role="user", content=LEFT_OUT))
            steps = [at + 1 for at in steps]
    return found


def _cut_longest(messages: Sequence[Message], room: int) -> list[Message]:
    """Cut the longest texts until the messages fit. None is left out, so calls and results stay together."""
    found = list(messages)
    for _ in range(len(found)):
        over = count(found) - room
        if over <= 0:
            break
        at = max(range(len(found)), key=lambda each: count_message(found[each]))
        shorter = _cut(found[at], max(TOOL_ANSWER_TOKENS, count_message(found[at]) - over))
        if shorter is found[at]:
            break
        found[at] = shorter
    return found


def _cut(message: Message, tokens: int) -> Message:
    if count_message(message) <= tokens:
        return message
    if isinstance(message.content, str):
        return message.model_copy(update={"content": cut_to_tokens(message.content, tokens)})
    parts = [
        TextContent(text=cut_to_tokens(part.text, tokens)) if isinstance(part, TextContent) else part
        for part in message.content
    ]
    changed = message.model_copy(update={"content": tuple(parts)})
    return changed if count_message(changed) < count_message(message) else message

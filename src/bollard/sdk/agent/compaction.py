"""Keeping a conversation within its budget: what is too old to be shown is summarised, step by step, and the summary is
kept for the runs that follow.

`compacted` works on the transcript before a run asks anything; `shrink` on a question that turned out to be too long.
A very long history is taken in bounded steps: each run summarises some of it, oldest first, and the next one goes on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bollard.protocol import Message, TextContent
from bollard.sdk.agent.checkpoint import Checkpoint, can_keep, keep
from bollard.sdk.agent.guard import Guard
from bollard.sdk.agent.history import History, Said
from bollard.sdk.agent.hooks import NO_HOOKS, Hooks
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.agent.summary import extracted, summarised, summary_message
from bollard.sdk.agent.token_budget import Budget, Prepared, position
from bollard.sdk.agent.tokens import count, count_message, cut_to_tokens
from bollard.sdk.context import RunContext

STEPS: Final = 4
"""Summaries that one run makes at most."""
TIME_LEFT_S: Final = 90.0
"""Before the deadline: no further step is begun, so that there is time for the answer."""
BACKLOG_PAGES: Final = 100
"""Pages of older messages that one run reads at most."""
BACKLOG_CHARACTERS: Final = 8 * 1024 * 1024
STEP_TOKENS: Final = 32_000
STEP_SHARE: Final = 0.7
"""Of the budget: what a model is given to summarise at once."""
SUMMARY_TOKENS: Final = 1200
SUMMARY_SHARE: Final = 6
"""A summary is at most a sixth of the budget."""
KEEP_OF_ROOM: Final = 0.8
SHRINK_TO: Final = 0.6
TOOL_ANSWER_TOKENS: Final = 120
"""What is left of an older tool's answer."""
LEFT_OUT: Final = "[earlier steps of this run were left out to save space]"


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of an attempt."""

    checkpoint: Checkpoint | None
    behind: bool = False
    """Whether older messages are neither summarised nor shown yet."""


def summary_tokens(budget: Budget) -> int:
    """How long a summary may be."""
    return min(SUMMARY_TOKENS, budget.tokens // SUMMARY_SHARE)


def boundary(said: Sequence[Said], tokens: int) -> int:
    """Where the newest messages begin that are so many tokens together. They begin with somebody's words: an answer
    without its question, or a tool's without its call, means nothing."""
    at, left = len(said), tokens
    while at > 0 and said[at - 1].tokens <= left:
        at -= 1
        left -= said[at].tokens
    while 0 < at < len(said) and said[at].message.role != "user":
        at += 1
    return at


async def compacted(
    ctx: RunContext[Any],
    config: AgentSettings,
    budget: Budget,
    history: History,
    checkpoint: Checkpoint | None,
    said: Sequence[Said],
    *,
    room: int,
    complete: bool,
    guard: Guard,
    hooks: Hooks = NO_HOOKS,
) -> Compacted:
    """Summarise what is older than the newest messages. `said` is what was read after the checkpoint, `complete` says
    whether that is all, `room` how much of it a question has room for, `guard` what the run may still spend."""
    if not config.compaction or not can_keep(ctx):
        return Compacted(checkpoint, behind=not complete)
    most = int((room - summary_tokens(budget)) * KEEP_OF_ROOM)  # a long prompt leaves less than its share
    at = boundary(said, max(0, min(int(budget.tokens * config.compaction_keep), most)))
    older = list(said[:at])
    until = said[at].seq if at < len(said) else (said[-1].seq + 1 if said else 0)
    if not complete:
        older, complete = await _backlog(history, checkpoint, older, until, STEPS * _step_tokens(budget))
    older = _settled(older, history.own_seq)
    reached, finished = await _advance(ctx, config, budget, checkpoint, older, count_of(said), guard, hooks)
    return Compacted(reached, behind=not (finished and complete))


def _settled(said: Sequence[Said], own_seq: int | None) -> list[Said]:
    return [each for each in said if own_seq is None or each.seq < own_seq]


def count_of(said: Sequence[Said]) -> int:
    return sum(each.tokens for each in said)


def _step_tokens(budget: Budget) -> int:
    return min(STEP_TOKENS, int(budget.tokens * STEP_SHARE) - summary_tokens(budget))


async def _backlog(
    history: History, checkpoint: Checkpoint | None, newer: list[Said], until: int, enough: int
) -> tuple[list[Said], bool]:
    """The messages between the checkpoint and `until`, oldest first, as far as a run may read; and whether that is all.

    Cursors hold for one run, so a checkpoint cannot say where to go on. What follows it is reached from the newest
    message backward; only where that is too far, or nothing was ever summarised, from the oldest forward.
    """
    if checkpoint is not None:
        read, characters = [newer], 0
        for _ in range(BACKLOG_PAGES):
            page = await history.older()
            fresh = [each for each in page if each.seq > checkpoint.covers_until]
            read.append(history.named(fresh))
            characters += sum(_characters(each) for each in fresh)
            if history.ended or len(fresh) < len(page):
                return [each for part in reversed(read) for each in part], True
            if characters > BACKLOG_CHARACTERS:
                break
    found, tokens, cursor = list[Said](), 0, None
    for _ in range(BACKLOG_PAGES):
        page, cursor = await history.from_start(cursor)
        fresh = [each for each in page if checkpoint is None or each.seq > checkpoint.covers_until]
        found += [each for each in history.named(fresh) if each.seq < until]
        tokens = count_of(found)
        if cursor is None or (fresh and fresh[-1].seq >= until):
            return found, True
        if tokens >= enough:
            break
    return found, False


def _characters(said: Said) -> int:
    content = said.message.content
    return len(content) if isinstance(content, str) else sum(len(getattr(part, "text", "")) for part in content)


async def _advance(
    ctx: RunContext[Any],
    config: AgentSettings,
    budget: Budget,
    checkpoint: Checkpoint | None,
    older: Sequence[Said],
    tokens_before: int,
    guard: Guard,
    hooks: Hooks,
) -> tuple[Checkpoint | None, bool]:
    """Take older messages into the summary, a step at a time; how far it came, and whether that is all of them."""
    at = 0
    for _ in range(STEPS):
        batch = _batch(older[at:], _step_tokens(budget))
        if not batch or (at > 0 and not _may_go_on(ctx, guard)):
            break
        before = "" if checkpoint is None else checkpoint.summary
        summary = await hooks.before_compaction(ctx, before, [each.message for each in batch])
        if summary is None:
            summary = await summarised(ctx, config.models, before, batch, summary_tokens(budget), guard)
        by_model = summary is not None
        text = summary or extracted(before, batch, summary_tokens(budget))
        if not text:
            break
        text = await hooks.after_compaction(ctx, text)
        new = Checkpoint.new(ctx, text, batch[-1].seq, tokens_before)
        checkpoint = await keep(ctx, checkpoint, new)
        at += len(batch)
        if checkpoint is not new:  # another run was faster: what it covers need not be done again
            at = len([each for each in older if each.seq <= checkpoint.covers_until])
        if not by_model:
            break
    return checkpoint, at >= len(older)


def _may_go_on(ctx: RunContext[Any], guard: Guard) -> bool:
    """Whether there is time and money for another step. Else the next run takes it, better than this one without a
    model."""
    return guard.may_summarise and (ctx.time_left is None or ctx.time_left >= TIME_LEFT_S)


def _batch(said: Sequence[Said], tokens: int) -> list[Said]:
    """As many as fit, at least one: a message that is larger than that is cut when it is told."""
    taken: list[Said] = []
    for each in said:
        if taken and tokens < each.tokens:
            break
        tokens -= each.tokens
        taken.append(each)
    return taken


# --- a question that is too long ---


async def shrink(
    ctx: RunContext[Any],
    config: AgentSettings,
    prepared: Prepared,
    used_tokens: int,
    guard: Guard,
    hooks: Hooks = NO_HOOKS,
) -> Prepared:
    """A shorter question with the same meaning: history into the summary, then older tool answers, then older steps,
    then whatever is longest. Only the first of these is lasting."""
    counted = count(prepared.messages)
    real = prepared.budget.scale.real(counted)
    target = int(min(counted, prepared.budget.tokens) * SHRINK_TO)
    if used_tokens > real > 0:  # tools, or a provider that counts more: what is not messages is not to be had smaller
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
    ctx: RunContext[Any], config: AgentSettings, prepared: Prepared, target: int, guard: Guard, hooks: Hooks
) -> Prepared:
    """The oldest of the history into the summary, as much as the target needs."""
    if not prepared.history or count(prepared.messages) <= target:
        return prepared
    mine = {id(each.message) for each in prepared.history}
    others = [message for message in prepared.messages if id(message) not in mine]
    kept_at = boundary(prepared.history, max(0, target - count(others) - summary_tokens(prepared.budget)))
    older, kept = prepared.history[:kept_at], prepared.history[kept_at:]
    checkpoint = prepared.checkpoint
    if config.compaction and can_keep(ctx):
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
    """What the run itself added, within so many tokens: older tool answers are cut first, then older steps left out.
    The newest step stays: it is what the model goes on from."""
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
        said = [message for message in found[begin:end] if message.role == "user"]
        found[begin:end] = said
        shift = end - begin - len(said)
        steps = [at - shift for at in steps[1:]]
        if not any(message.content == LEFT_OUT for message in found):
            found.insert(begin, Message(role="user", content=LEFT_OUT))
            steps = [at + 1 for at in steps]
    return found


def _cut_longest(messages: Sequence[Message], room: int) -> list[Message]:
    """Within so many tokens by cutting the longest texts; nothing is left out, so calls and answers stay together."""
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

"""The rules of a channel: which of its messages get an answer, and why. Pure.

The rules apply in the order of `decide`. Rates, which count, are in `gate`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Final, Literal

import msgspec
from pydantic import Field

from bollard.host.agents.commands import CommandName
from bollard.host.agents.names import ActorPattern, ForeignId
from bollard.host.channels.content_filter import ContentFilter, filtered
from bollard.host.runs.event import NewEvent
from bollard.host.texts import Locale, read_texts
from bollard.protocol import Flag, Int, Strict

LISTED: Final = 1000
"""Actors or conversations of one list."""
MARKS: Final = 64
"""Prefixes, keywords or patterns of one channel."""
PATTERN_CHARACTERS: Final = 256
"""The longest pattern."""
RATE_MAX: Final = 10_000
"""The largest rate, in messages a minute."""

_Mark = Annotated[str, Field(min_length=1, max_length=64)]
RuleKey = Literal[
    "bot_ignored",
    "actor_denied",
    "actor_not_allowed",
    "conversation_denied",
    "conversation_not_allowed",
    "private_off",
    "private",
    "groups_off",
    "groups_all",
    "mentioned",
    "prefix",
    "keyword",
    "pattern",
    "not_addressed",
    "no_message",
    "command",
    "host_command",
    "agent_command",
    "command_off",
    "content_blocked",
    "content_masked",
    "actor_rate",
    "conversation_rate",
]
WORDS: Final = read_texts("rules")


class ActorRules(Strict):
    """Which actors get an answer. Denied goes before allowed; without `allow`, every other actor is allowed."""

    allow: tuple[ActorPattern, ...] | None = Field(default=None, max_length=LISTED)
    deny: tuple[ActorPattern, ...] = Field(default=(), max_length=LISTED)


class ConversationRules(Strict):
    """Which conversations get an answer, by the ids that the channel uses."""

    allow: tuple[ForeignId, ...] | None = Field(default=None, max_length=LISTED)
    deny: tuple[ForeignId, ...] = Field(default=(), max_length=LISTED)


class Rate(Strict):
    """Messages a minute on average, and at once."""

    per_minute: Int = Field(ge=1, le=RATE_MAX)
    burst: Int | None = Field(default=None, ge=1, le=RATE_MAX, description="Otherwise as many as a minute has.")


class ChannelRules(Strict):
    """Which messages of a channel get an answer. Without rules, all of them."""

    private: Flag = Field(default=True, description="Answer in private chats.")
    groups: Literal["all", "addressed", "none"] = Field(
        default="all", description="`addressed`: on a mention of the bot, a prefix, a keyword or a pattern."
    )
    prefixes: tuple[_Mark, ...] = Field(default=(), max_length=MARKS)
    keywords: tuple[_Mark, ...] = Field(default=(), max_length=MARKS)
    patterns: tuple[Annotated[str, Field(min_length=1, max_length=PATTERN_CHARACTERS)], ...] = Field(
        default=(), max_length=MARKS, description="Regular expressions without look-around and back-references."
    )
    ignore_bots: Flag = True
    actors: ActorRules = Field(default_factory=ActorRules)
    conversations: ConversationRules = Field(default_factory=ConversationRules)
    actor_rate: Rate | None = None
    conversation_rate: Rate | None = None
    commands_off: tuple[CommandName, ...] = Field(
        default=(), max_length=LISTED, description="Commands of agents that the channel does not have."
    )
    filter_in: ContentFilter | None = Field(default=None, description="Applies to messages of people.")
    filter_out: ContentFilter | None = Field(default=None, description="Applies to answers and questions.")


class RuleStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an explanation."""

    key: RuleKey
    fields: Mapping[str, str] = MappingProxyType({})

    def sentence(self, locale: Locale = "en_US") -> str:
        return WORDS[locale][self.key].format_map(self.fields)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a message gets an answer. The last step says why it gets none."""

    answered: bool
    steps: tuple[RuleStep, ...]
    event: NewEvent
    """The message, with its masked words."""


Matches = Callable[[str, str], bool]
"""Whether a text matches a pattern."""


def decide(rules: ChannelRules, event: NewEvent, names: frozenset[str], matches: Matches) -> Decision:
    """Whether an event of the channel gets an answer, rule by rule. `names` are the names of its actor."""
    steps: list[RuleStep] = []
    for rule in (_bots, _actors, _conversations):
        if (step := rule(rules, event, names)) is not None:
            return Decision(answered=False, steps=(step,), event=event)
    if not event.is_spoken:
        return Decision(answered=True, steps=(RuleStep(key="no_message"),), event=event)
    addressed, step = _place(rules, event) if not event.is_message else _address(rules, event, matches)
    steps.append(step)
    if not addressed:
        return Decision(answered=False, steps=tuple(steps), event=event)
    outcomes = {text: filtered(rules.filter_in, text) for text in event.texts}
    if any(each.outcome == "block" for each in outcomes.values()):
        return Decision(answered=False, steps=(*steps, RuleStep(key="content_blocked")), event=event)
    if any(each.outcome == "mask" for each in outcomes.values()):
        steps.append(RuleStep(key="content_masked"))
        event = _masked(event, {text: each.text for text, each in outcomes.items()})
    return Decision(answered=True, steps=tuple(steps), event=event)


def _masked(event: NewEvent, texts: Mapping[str, str]) -> NewEvent:
    contents = tuple(
        {**each, "text": texts[str(each["text"])]} if each.get("type") == "text" else each for each in event.contents
    )
    return replace(event, text=event.text and texts[event.text], contents=contents, known=True)


def _bots(rules: ChannelRules, event: NewEvent, names: frozenset[str]) -> RuleStep | None:
    del names
    ignored = rules.ignore_bots and event.facts.actor_is_bot
    return RuleStep(key="bot_ignored") if ignored else None


def _actors(rules: ChannelRules, event: NewEvent, names: frozenset[str]) -> RuleStep | None:
    shown = {"actor": f"{event.scope.actor_type}:{event.scope.actor_id}"}
    if not names.isdisjoint(rules.actors.deny):
        return RuleStep(key="actor_denied", fields=shown)
    if rules.actors.allow is not None and names.isdisjoint(rules.actors.allow):
        return RuleStep(key="actor_not_allowed", fields=shown)
    return None


def _conversations(rules: ChannelRules, event: NewEvent, names: frozenset[str]) -> RuleStep | None:
    del names
    conversation, listed = event.room, rules.conversations
    shown = {"conversation": conversation or "-"}
    if conversation in listed.deny:
        return RuleStep(key="conversation_denied", fields=shown)
    if listed.allow is not None and conversation not in listed.allow:
        return RuleStep(key="conversation_not_allowed", fields=shown)
    return None


def _place(rules: ChannelRules, event: NewEvent) -> tuple[bool, RuleStep]:
    """Whether commands of the platform are answered there. A command is always for the bot."""
    if event.facts.is_private:
        return rules.private, RuleStep(key="command" if rules.private else "private_off")
    return rules.groups != "none", RuleStep(key="groups_off" if rules.groups == "none" else "command")


def _address(rules: ChannelRules, event: NewEvent, matches: Matches) -> tuple[bool, RuleStep]:
    """Whether the message is for the bot. A chat is a group unless the channel says that it is private."""
    if event.facts.is_private:
        return rules.private, RuleStep(key="private" if rules.private else "private_off")
    if rules.groups != "addressed":
        return rules.groups == "all", RuleStep(key="groups_all" if rules.groups == "all" else "groups_off")
    text = event.text or "\n".join(event.texts)
    if event.scope.bot is not None and event.scope.bot in event.facts.mentions:
        return True, RuleStep(key="mentioned", fields={"bot": event.scope.bot})
    for prefix in rules.prefixes:
        if text.startswith(prefix):
            return True, RuleStep(key="prefix", fields={"word": prefix})
    folded = text.casefold()
    for keyword in rules.keywords:
        if keyword.casefold() in folded:
            return True, RuleStep(key="keyword", fields={"word": keyword})
    for pattern in rules.patterns:
        if matches(pattern, text):
            return True, RuleStep(key="pattern", fields={"word": pattern})
    return False, RuleStep(key="not_addressed")

"""The rules of a channel: which of its messages get an answer, and why. Pure.

The rules apply in the order of `decide`. Rates, which count, are in `gate`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal

import msgspec
from pydantic import Field

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
    filter_in: ContentFilter | None = Field(default=None, description="Applies to messages of people.")
    filter_out: ContentFilter | None = Field(default=None, description="Applies to answers.")


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
    text: str | None
    """The text of the message, with its masked words."""


Matches = Callable[[str, str], bool]
"""Whether a text matches a pattern."""


def decide(rules: ChannelRules, event: NewEvent, names: frozenset[str], matches: Matches) -> Decision:
    """Whether an event of the channel gets an answer, rule by rule. `names` are the names of its actor."""
    steps: list[RuleStep] = []
    for rule in (_bots, _actors, _conversations):
        if (step := rule(rules, event, names)) is not None:
            return Decision(answered=False, steps=(step,), text=event.text)
    if not event.is_message:
        return Decision(answered=True, steps=(RuleStep(key="no_message"),), text=event.text)
    addressed, step = _address(rules, event, matches)
    steps.append(step)
    if not addressed:
        return Decision(answered=False, steps=tuple(steps), text=event.text)
    if event.text is None:
        return Decision(answered=True, steps=tuple(steps), text=None)
    outcome = filtered(rules.filter_in, event.text)
    if outcome.outcome == "block":
        return Decision(answered=False, steps=(*steps, RuleStep(key="content_blocked")), text=None)
    if outcome.outcome == "mask":
        steps.append(RuleStep(key="content_masked"))
    return Decision(answered=True, steps=tuple(steps), text=outcome.text)


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


def _address(rules: ChannelRules, event: NewEvent, matches: Matches) -> tuple[bool, RuleStep]:
    """Whether the message is for the bot. A chat is a group unless the channel says that it is private."""
    if event.facts.is_private:
        return rules.private, RuleStep(key="private" if rules.private else "private_off")
    if rules.groups != "addressed":
        return rules.groups == "all", RuleStep(key="groups_all" if rules.groups == "all" else "groups_off")
    text = event.text or ""
    if event.scope.bot is not None and event.scope.bot in event.facts.mentions:
        return True, RuleStep(key="mentioned", fields={"bot": event.scope.bot})
    for prefix in rules.prefixes:
        if text.startswith(prefix):
            return True, RuleStep(key="prefix", fields={"word": prefix})
    for keyword in rules.keywords:
        if keyword.casefold() in text.casefold():
            return True, RuleStep(key="keyword", fields={"word": keyword})
    for pattern in rules.patterns:
        if matches(pattern, text):
            return True, RuleStep(key="pattern", fields={"word": pattern})
    return False, RuleStep(key="not_addressed")

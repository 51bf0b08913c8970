"""The gate of the channels: applies the rules of a channel to an event, and counts the rates.

Patterns run in the engine of schemas, which has no backtracking: its time is the size of the compiled pattern times the
length of the text. Both have a limit (ADR 0111). The engine is loaded with the first pattern.
"""

import asyncio
import importlib
import math
from functools import lru_cache
from typing import Any, Final

from bollard.host.agents.names import Names, own_names
from bollard.host.agents.rates import Rates
from bollard.host.channels.limits import LONG_TEXT_CHARACTERS, PATTERN_BYTES, PATTERN_TEXT_CHARACTERS, PATTERNS_BYTES
from bollard.host.channels.rules import ChannelRules, Decision, Rate, RuleStep, decide
from bollard.host.clock import Clock
from bollard.host.errors import InvalidRequest, Overloaded
from bollard.host.runs.event import NewEvent

_ENGINE: Final = "bollard.host.actions.schema_engine"
_PATTERNS: Final = 1024
"""Patterns that stay compiled."""
_Key = tuple[str, str, str]
"""Workspace, channel, and the kind of rate."""


@lru_cache(_PATTERNS)
def _compiled(pattern: str, most: int = PATTERN_BYTES) -> Any:
    """Raises `ValueError` for a pattern that the engine does not support, or that is larger."""
    return importlib.import_module(_ENGINE).compiled({"type": "string", "pattern": pattern}, most)


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern is somewhere in the beginning of the text."""
    try:
        return _compiled(pattern).is_valid(text[:PATTERN_TEXT_CHARACTERS])
    except ValueError:  # saved before the limit was there
        return False


def check_patterns(rules: ChannelRules) -> None:
    """Raises `InvalidRequest` for a pattern that the engine does not support, and for patterns that are too large."""
    for number, pattern in enumerate(rules.patterns):
        field = f"channel.rules.patterns.{number}"
        try:
            _compiled(pattern, PATTERNS_BYTES)
        except ValueError as error:
            raise InvalidRequest(
                f"{field}: is not a supported regular expression",
                reason="channel_pattern",
                hint="look-around, back-references and long counted repetitions are not supported",
                field=field,
            ) from error
        try:
            _compiled(pattern)
        except ValueError as error:
            raise _too_large(field) from error
    try:
        _compiled("|".join(f"(?:{pattern})" for pattern in rules.patterns), PATTERNS_BYTES)
    except ValueError as error:
        raise _too_large("channel.rules.patterns") from error


def _too_large(field: str) -> InvalidRequest:
    return InvalidRequest(
        f"{field}: needs too many steps for each character of a message",
        reason="channel_pattern_size",
        hint="use smaller counted repetitions, or fewer patterns",
        field=field,
    )


class ChannelGate:
    """Decides about the events of every channel."""

    def __init__(self, clock: Clock, names: Names = own_names) -> None:
        """`names` returns the names of an actor, also those of the user that it is linked to."""
        self._clock = clock
        self._names = names
        self._rates: dict[_Key, Rates[str]] = {}

    async def decide(self, channel_id: str, rules: ChannelRules, event: NewEvent, *, takes: bool = True) -> Decision:
        """The decision about an event. Raises `Overloaded` beyond a rate; without `takes`, the decision says so."""
        names = self._names(event.scope.workspace, event.scope.actor)
        if sum(map(len, event.texts)) > LONG_TEXT_CHARACTERS:
            decision = await asyncio.to_thread(decide, rules, event, names, matches)
        else:
            decision = decide(rules, event, names, matches)
        if not decision.answered:
            return decision
        over = self._over(channel_id, rules, event, takes=takes)
        if over is None:
            return decision
        step, wait_s = over
        if takes:
            raise _too_many(channel_id, step, wait_s)
        return Decision(answered=False, steps=(*decision.steps, step), event=decision.event)

    def _over(
        self, channel_id: str, rules: ChannelRules, event: NewEvent, *, takes: bool
    ) -> tuple[RuleStep, float] | None:
        """The rate that the event exceeds, and the time until it does not. A token is taken only if both have one."""
        now, place = self._clock.monotonic(), (event.scope.workspace, channel_id)
        limited = [
            (kind, self._rates_of((*place, kind), rate), key or "")
            for kind, rate, key in (
                ("actor_rate", rules.actor_rate, event.scope.actor_id),
                ("conversation_rate", rules.conversation_rate, event.room),
            )
            if rate is not None
        ]
        for kind, rates, key in limited:
            if (wait_s := rates.look(key, now)) is not None:
                fields = {"limit": str(rates.limit_per_minute)}
                step = RuleStep(key="actor_rate" if kind == "actor_rate" else "conversation_rate", fields=fields)
                return step, wait_s
        for _, rates, key in limited if takes else ():
            rates.take(key, now)
        return None

    def _rates_of(self, key: _Key, rate: Rate) -> Rates[str]:
        """The buckets of a rule. A changed rule starts with full buckets."""
        burst = rate.burst or rate.per_minute
        rates = self._rates.get(key)
        if rates is None or (rates.limit_per_minute, rates.burst) != (rate.per_minute, burst):
            rates = self._rates[key] = Rates(rate.per_minute, burst)
        return rates


def _too_many(channel_id: str, step: RuleStep, wait_s: float) -> Overloaded:
    seconds = math.ceil(wait_s)
    error = Overloaded(
        f"channel {channel_id} answers {step.fields['limit']} messages a minute from one sender or conversation",
        reason="channel_rate",
        hint=f"retry in {seconds} s",
        channel=channel_id,
        limit=step.fields["limit"],
        seconds=seconds,
    )
    error.details["retry_after_s"] = round(wait_s, 3)
    return error

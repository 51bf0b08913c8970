"""The rules of a channel, rule by rule."""

import time
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.tables import for_each

from bollard.host.channels.gate import ChannelGate, check_patterns, matches
from bollard.host.channels.rules import WORDS, ChannelRules, RuleKey, decide
from bollard.host.errors import InvalidRequest, Overloaded
from bollard.host.runs.event import MessageFacts, NewEvent
from bollard.host.scope import Scope

ANN = frozenset({"room:*", "room:ann", "user:ann"})


def message(text: str | None = "hello", conversation: str = "c-1", kind: str = "message.received", **facts: Any) -> Any:
    scope = Scope(workspace="default", bot="polly", conversation=conversation, actor_type="room", actor_id="ann")
    return NewEvent(source="room", source_id="1", event_type=kind, scope=scope, text=text, facts=MessageFacts(**facts))


@for_each(
    ("rules", "event", "answered", "key"),
    [
        ({}, message(), True, "groups_all"),
        ({}, message(is_private=True), True, "private"),
        ({"private": False}, message(is_private=True), False, "private_off"),
        ({"groups": "none"}, message(), False, "groups_off"),
        ({"groups": "none"}, message(is_private=True), True, "private"),
        ({"groups": "addressed"}, message(), False, "not_addressed"),
        ({"groups": "addressed"}, message(mentions=("bob", "polly")), True, "mentioned"),
        ({"groups": "addressed"}, message(mentions=("bob",)), False, "not_addressed"),
        ({"groups": "addressed", "prefixes": ["!ask"]}, message("!ask why"), True, "prefix"),
        ({"groups": "addressed", "prefixes": ["!ask"]}, message("why !ask"), False, "not_addressed"),
        ({"groups": "addressed", "keywords": ["发票"]}, message("请开发票"), True, "keyword"),
        ({"groups": "addressed", "keywords": ["Invoice"]}, message("my INVOICE"), True, "keyword"),
        ({"groups": "addressed", "patterns": [r"order \d+$"]}, message("about order 17"), True, "pattern"),
        ({"groups": "addressed", "patterns": [r"order \d+$"]}, message("order 17 please"), False, "not_addressed"),
        ({"groups": "addressed"}, message(text=None), False, "not_addressed"),
        ({}, message(actor_is_bot=True), False, "bot_ignored"),
        ({"ignore_bots": False}, message(actor_is_bot=True), True, "groups_all"),
        ({"actors": {"deny": ["user:ann"]}}, message(), False, "actor_denied"),
        ({"actors": {"allow": ["room:bob"]}}, message(), False, "actor_not_allowed"),
        ({"actors": {"allow": ["room:*"], "deny": ["room:ann"]}}, message(), False, "actor_denied"),
        ({"actors": {"allow": []}}, message(), False, "actor_not_allowed"),
        ({"conversations": {"deny": ["c-1"]}}, message(), False, "conversation_denied"),
        ({"conversations": {"allow": ["c-2"]}}, message(), False, "conversation_not_allowed"),
        ({"groups": "none"}, message(kind="member.joined"), True, "no_message"),
        ({"actors": {"deny": ["room:ann"]}}, message(kind="member.joined"), False, "actor_denied"),
        ({"filter_in": {"words": ["rum"]}}, message("rum!"), False, "content_blocked"),
        ({"filter_in": {"words": ["rum"], "outcome": "mask"}}, message("rum!"), True, "content_masked"),
    ],
)
def test_the_last_step_decides(rules: Any, event: NewEvent, answered: bool, key: str) -> None:
    decision = decide(ChannelRules.from_wire(rules), event, ANN, matches)
    assert (decision.answered, decision.steps[-1].key) == (answered, key)


def test_every_rule_is_explained_in_both_languages() -> None:
    assert set(WORDS["en_US"]) == set(WORDS["zh_Hans"]) == set(RuleKey.__args__)


HEAVY = {
    "counted repetitions that multiply": (("(a{1,100}){1,100}b",), "channel_pattern"),
    "a counted repetition of thousands": (("(?:a?){5000}a{5000}",), "channel_pattern"),
    "one large pattern": (("(a{1,35}){1,35}b",), "channel_pattern_size"),
    "many patterns together": (("(a{1,20}){1,20}b",) * 64, "channel_pattern_size"),
    "a back-reference": ((r"(a)\1",), "channel_pattern"),
}


@for_each("case", HEAVY)
def test_patterns_that_need_many_steps_are_refused(case: str) -> None:
    patterns, reason = HEAVY[case]
    with pytest.raises(InvalidRequest) as refused:
        check_patterns(ChannelRules(patterns=patterns))
    assert refused.value.details["reason"] == reason


def test_a_catastrophic_pattern_costs_no_more_than_others() -> None:
    """With backtracking, each of these takes longer than the universe."""
    patterns = ("^(a+)+$", "(a|a)*b", "(a|aa)+$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$", r"(\w*\s*)*$")
    check_patterns(ChannelRules(patterns=patterns))
    text = "a" * 262_143 + "!"
    began = time.process_time()
    assert [matches(each, text) for each in patterns] == [True, False, True, False, False, True]
    assert time.process_time() - began < 5.0


def test_a_pattern_sees_the_beginning_of_a_message() -> None:
    assert matches("help$", "x" * 2044 + "help")
    assert not matches("help", "x" * 2048 + "help")


def test_a_pattern_that_was_saved_before_the_limit_matches_nothing() -> None:
    assert not matches("(a{1,100}){1,100}b", "ab")


def test_useful_patterns_are_within_the_limits() -> None:
    patterns = (
        r"\b(help|帮助|order \d+)\b",
        r"(?i)urgent",
        r"\d{4}-\d{2}-\d{2}",
        "[一-龥]{2,20}",
        r"^\s*\w+@\w+\.[a-z]{2,6}",
    )
    check_patterns(ChannelRules(patterns=patterns))
    check_patterns(ChannelRules(patterns=(r"\p{L}+",)))


def test_a_pattern_with_look_around_is_refused_by_its_field() -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_patterns(ChannelRules(patterns=("fine", "(?=x)y")))
    assert refused.value.details["field"] == "channel.rules.patterns.1"


async def test_a_rate_refuses_the_message_beyond_it_and_a_preview_takes_nothing() -> None:
    clock = ManualClock()
    gate = ChannelGate(clock)
    rules = ChannelRules.from_wire({"actor_rate": {"per_minute": 1}, "conversation_rate": {"per_minute": 2}})
    for _ in range(3):
        assert (await gate.decide("room", rules, message(), takes=False)).answered
    assert (await gate.decide("room", rules, message())).answered
    assert (await gate.decide("room", rules, message(), takes=False)).steps[-1].key == "actor_rate"
    with pytest.raises(Overloaded) as refused:
        await gate.decide("room", rules, message())
    assert refused.value.details["seconds"] == 61
    clock.advance(60)
    assert (await gate.decide("room", rules, message())).answered
    assert (await gate.decide("other", rules, message())).answered

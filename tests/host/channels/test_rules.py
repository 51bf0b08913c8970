"""The rules of a channel, rule by rule."""

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


def test_a_pattern_with_look_around_is_refused_by_its_field() -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_patterns(ChannelRules(patterns=("fine", "(?=x)y")))
    assert refused.value.details["field"] == "channel.rules.patterns.1"


def test_a_rate_refuses_the_message_beyond_it_and_a_preview_takes_nothing() -> None:
    clock = ManualClock()
    gate = ChannelGate(clock)
    rules = ChannelRules.from_wire({"actor_rate": {"per_minute": 1}, "conversation_rate": {"per_minute": 2}})
    for _ in range(3):
        assert gate.decide("room", rules, message(), takes=False).answered
    assert gate.decide("room", rules, message()).answered
    assert gate.decide("room", rules, message(), takes=False).steps[-1].key == "actor_rate"
    with pytest.raises(Overloaded) as refused:
        gate.decide("room", rules, message())
    assert refused.value.details["seconds"] == 61
    clock.advance(60)
    assert gate.decide("room", rules, message()).answered
    assert gate.decide("other", rules, message()).answered

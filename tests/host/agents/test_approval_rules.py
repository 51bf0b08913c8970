"""Approval rules: the first that matches a call decides, and none loosens what a capability requires."""

from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.actions.call_policy import reasons_to_ask
from bollard.host.agents.approval_rules import ApprovalRule, ArgumentCondition, decide, matches
from bollard.host.agents.policies import ApprovalPolicy, policy_from_wire, policy_to_wire
from bollard.host.capabilities.capability import NO_FLOW, Capability
from bollard.host.errors import InvalidRequest

FORCED = {"capability": "tool:files/write", "decision": "ask", "when": [{"pointer": "/force", "values": [True]}]}
OUTSIDE = {"capability": "tool:files/*", "decision": "ask", "when": [{"pointer": "/path", "pattern": "/etc/*"}]}
REST = {"capability": "tool:files/*", "decision": "never"}


def rules(*bodies: Any) -> tuple[ApprovalRule, ...]:
    return policy_from_wire({"approval": {"rules": [*bodies]}}).approval.rules


def capability(**more: Any) -> Capability:
    fields: dict[str, Any] = {
        "id": "tool:files/write",
        "name": "write",
        "kind": "tool",
        "description": "",
        "risk": "low",
    }
    return Capability(**{**fields, "input_schema": {}, "source": "builtin", "flow": NO_FLOW, **more})


@for_each(
    ("arguments", "decision"),
    [
        ({"path": "/docs/a", "force": True}, "always"),
        ({"path": "/docs/a", "force": 1}, "never"),
        ({"path": "/etc/passwd"}, "always"),
        ({"path": "/docs/a"}, "never"),
        ({"path": ["/etc/passwd"]}, "never"),
        ({}, "never"),
    ],
)
def test_the_first_rule_that_matches_the_arguments_decides(arguments: Any, decision: str) -> None:
    assert decide(rules(FORCED, OUTSIDE, REST), "tool:files/write", arguments) == decision


def test_a_call_that_no_rule_matches_follows_the_mode() -> None:
    assert decide(rules(FORCED, OUTSIDE), "tool:files/write", {"path": "/docs"}) is None
    assert decide(rules(REST), "mcp:files/write", {}) is None
    policy = ApprovalPolicy(mode="always", rules=rules(REST))
    assert reasons_to_ask(capability(), policy, {}, flow=False) == ()
    assert reasons_to_ask(capability(id="mcp:files/write"), policy, {}, flow=False) == ("always",)


@for_each(
    ("more", "reasons"),
    [
        ({"approval": "always"}, ("always",)),
        ({"approval": "on_risk", "risk": "high"}, ("risk",)),
        ({"approval": "never", "risk": "high"}, ()),
    ],
)
def test_never_does_not_loosen_what_the_capability_requires(more: Any, reasons: Any) -> None:
    policy = ApprovalPolicy(mode="on_risk", rules=rules(REST))
    assert reasons_to_ask(capability(**more), policy, {}, flow=False) == reasons
    assert reasons_to_ask(capability(**more), policy, {}, flow=True) == (*reasons, "flow")


def test_a_rule_that_asks_is_the_reason() -> None:
    policy = ApprovalPolicy(mode="never", rules=rules(FORCED))
    assert reasons_to_ask(capability(approval="never"), policy, {"force": True}, flow=False) == ("rule",)


@for_each(
    ("pattern", "text", "fits"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("*", "", True),
        ("a*", "ab", True),
        ("*b", "ab", True),
        ("a*a", "a", False),
        ("a*b*c", "a--b--c", True),
        ("a*b*c", "acb", False),
        ("a**c", "ac", True),
        ("*b*b*", "ab", False),
        ("a.c", "abc", False),
    ],
)
def test_a_star_stands_for_any_text(pattern: str, text: str, fits: bool) -> None:
    assert matches(pattern, text) is fits


def test_a_pattern_of_stars_is_matched_in_bounded_time() -> None:
    assert not matches("*a" * 500 + "b", "a" * 1_000_000)


def test_a_pointer_reaches_into_lists_and_escaped_keys() -> None:
    def holds(pointer: str, arguments: Any) -> bool:
        condition = ArgumentCondition(pointer=pointer, values=("x",))
        rule = ApprovalRule(capability="*", decision="ask", when=(condition,))
        return decide((rule,), "t", arguments) == "always"

    assert holds("/a/1/b", {"a": [0, {"b": "x"}]})
    assert holds("/a~1b/~0", {"a/b": {"~": "x"}})
    assert holds("/", {"": "x"})
    for pointer in ("/a/2", "/a/-1", "/a/01x", "/b", "/a/1/b/c"):
        assert not holds(pointer, {"a": [0, {"b": "x"}]})


@for_each(
    ("rule", "field"),
    [
        ({"capability": "t", "decision": "ask"}, "policy.approval.rules.0"),
        (
            {"capability": "t", "decision": "never", "when": [{"pointer": "/a", "values": [1]}]},
            "policy.approval.rules.0",
        ),
        ({"capability": "t", "decision": "sometimes"}, "policy.approval.rules.0.decision"),
        ({**FORCED, "when": [{"pointer": "/a"}]}, "policy.approval.rules.0.when.0"),
        ({**FORCED, "when": [{"pointer": "/a", "values": [1], "pattern": "b"}]}, "policy.approval.rules.0.when.0"),
        ({**FORCED, "when": [{"pointer": "a", "values": [1]}]}, "policy.approval.rules.0.when.0.pointer"),
        ({**FORCED, "when": [{"pointer": "/a", "values": [[1]]}]}, "policy.approval.rules.0.when.0.values.0"),
        ({"capability": "", "decision": "never"}, "policy.approval.rules.0.capability"),
    ],
)
def test_a_rule_that_means_nothing_is_refused_by_its_field(rule: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        rules(rule)
    assert str(refused.value.details["field"]).startswith(field), refused.value.details


def test_rules_are_saved_as_they_were_written() -> None:
    body = {"approval": {"rules": [FORCED, OUTSIDE, REST]}, "delegation": {"depth": 1}}
    wire = policy_to_wire(policy_from_wire(body))
    assert policy_from_wire(wire) == policy_from_wire(body)
    with pytest.raises(InvalidRequest):
        policy_from_wire({"approval": {"rules": [REST] * 101}})

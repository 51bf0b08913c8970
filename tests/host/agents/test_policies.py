"""Policies are validated strictly, errors name the path, and a saved policy reads back unchanged."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.host.agents.policies import (
    OPERATIONS,
    RESOURCE_KINDS,
    AccessPolicy,
    AgentPolicy,
    ConcurrencyMode,
    GatePolicy,
    ResourceRule,
    StateScope,
    policy_from_wire,
    policy_to_wire,
)
from bollard.host.errors import InvalidRequest
from bollard.protocol import AgentRunnerPermissions
from bollard.protocol import results as conventions


@pytest.mark.requirement("P02-20", "P03-06")
def test_an_empty_policy_grants_nothing_and_queues_messages() -> None:
    policy = policy_from_wire({})
    assert policy == AgentPolicy()
    assert policy.access == AccessPolicy(permissions={}, resources={}, conversations=())
    assert policy.concurrency.mode == "queue"
    assert policy.state.scopes == ("conversation", "actor")


def test_operations_are_those_of_the_protocol() -> None:
    assert AgentRunnerPermissions.model_validate({family: list(names) for family, names in OPERATIONS.items()})
    assert set(OPERATIONS) == set(AgentRunnerPermissions.model_fields)
    assert get_args(ConcurrencyMode) == get_args(conventions.ConcurrencyPolicy)


def test_permissions_have_one_order_without_repetitions_and_empty_families() -> None:
    access = policy_from_wire(
        {"access": {"permissions": {"tools": ["call", "detail", "call"], "history": [], "models": ["stream"]}}}
    ).access
    assert access.permissions == {"models": ("stream",), "tools": ("detail", "call")}
    assert list(access.permissions) == ["models", "tools"]


def test_an_empty_only_list_differs_from_a_missing_rule() -> None:
    rules = policy_from_wire({"access": {"resources": {"tools": {"only": []}, "models": {"add": ["m"]}}}}).access
    assert rules.resources == {"tools": ResourceRule(only=()), "models": ResourceRule(add=("m",))}
    assert policy_from_wire(policy_to_wire(AgentPolicy(access=rules))).access == rules


@for_each(
    ("body", "field", "said"),
    [
        ({"acess": {}}, "policy.acess", "no such field"),
        ({"access": {"permission": {}}}, "policy.access.permission", "no such field"),
        ({"access": {"permissions": {"moons": ["fly"]}}}, "policy.access.permissions", "'moons' is no family"),
        ({"access": {"permissions": {"models": ["fly"]}}}, "policy.access.permissions", "'fly' is no operation"),
        ({"access": {"permissions": {"models": "invoke"}}}, "policy.access.permissions.models", "tuple"),
        ({"access": {"resources": {"moons": {}}}}, "policy.access.resources.moons", "knowledge_bases"),
        ({"access": {"resources": {"tools": {"ad": []}}}}, "policy.access.resources.tools.ad", "no such field"),
        ({"access": {"resources": {"tools": {"add": [""]}}}}, "policy.access.resources.tools.add.0", "at least 1"),
        ({"access": {"conversations": ["a"] * 1001}}, "policy.access.conversations", "1000"),
        ({"access": {"conversations": ["a\u200b"]}}, "policy.access.conversations.0", "U+200B"),
        ({"access": {"conversations": ["e\u0301"]}}, "policy.access.conversations.0", "NFC"),
        ({"state": {"enabled": 1}}, "policy.state.enabled", "boolean"),
        ({"state": {"scopes": ["planet"]}}, "policy.state.scopes.0", "conversation"),
        ({"delivery": {"max_message_size": 0}}, "policy.delivery.max_message_size", "greater"),
        ({"concurrency": {"mode": "race"}}, "policy.concurrency.mode", "parallel"),
        ({"concurrency": []}, "policy.concurrency", "object"),
        ({"approval": {"expires_s": 7 * 24 * 3600 + 1}}, "policy.approval.expires_s", "604800"),
        ({"approval": {"expires_s": 0}}, "policy.approval.expires_s", "greater"),
        ({"approval": {"expires_s": "900"}}, "policy.approval.expires_s", "integer"),
        ({"budget": {"runs_per_day": -1}}, "policy.budget.runs_per_day", "greater"),
        ({"budget": {"runs_at_once": 1_000_001}}, "policy.budget.runs_at_once", "1000000"),
        ({"budget": {"calls_per_run": True}}, "policy.budget.calls_per_run", "integer"),
        ({"gate": {"messages_per_minute": 0}}, "policy.gate.messages_per_minute", "greater"),
        ({"gate": {"talk": "nobody"}}, "policy.gate.talk", "everyone"),
        ({"gate": {"talk": "listed", "actors": ["ada"]}}, "policy.gate.actors.0", "type:id"),
        ({"gate": {"talk": "listed", "actors": ["user:"]}}, "policy.gate.actors.0", "type:id"),
        ({"gate": {"talk": "listed", "actors": ["user:\u202eada"]}}, "policy.gate.actors.0", "U+202E"),
        ({"gate": {"burst": 5}}, "policy.gate.burst", "messages_per_minute"),
    ],
)
def test_an_invalid_field_is_refused_by_its_path(body: Any, field: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        policy_from_wire(body)
    assert caught.value.details["field"] == field
    assert said in caught.value.message
    assert caught.value.hint


def test_a_list_of_actors_without_effect_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="lets everyone talk") as caught:
        policy_from_wire({"gate": {"actors": ["user:ada"]}})
    assert caught.value.details["field"] == "policy.gate.actors"
    told = policy_from_wire({"gate": {"talk": "listed", "actors": ["user:ada", "staff:*"]}}).gate
    assert told == GatePolicy(talk="listed", actors=("user:ada", "staff:*"))


def test_a_refusal_does_not_repeat_the_value() -> None:
    with pytest.raises(InvalidRequest) as caught:
        policy_from_wire({"delivery": {"target": ["hunter2"]}})
    assert "hunter2" not in caught.value.message


ids = st.lists(st.sampled_from(("a", "b", "房间", "x/y:z")), max_size=3)
rules = st.fixed_dictionaries({}, optional={"add": ids, "only": st.none() | ids})
counts = st.none() | st.integers(1, 1_000_000)
bodies = st.fixed_dictionaries(
    {},
    optional={
        "access": st.fixed_dictionaries(
            {},
            optional={
                "permissions": st.dictionaries(st.sampled_from(sorted(OPERATIONS)), st.just([])).map(
                    lambda found: {family: list(OPERATIONS[family][:1]) for family in found}
                ),
                "resources": st.dictionaries(st.sampled_from(RESOURCE_KINDS), rules),
                "conversations": ids,
            },
        ),
        "state": st.fixed_dictionaries(
            {}, optional={"enabled": st.booleans(), "scopes": st.lists(st.sampled_from(get_args(StateScope)))}
        ),
        "concurrency": st.fixed_dictionaries({"mode": st.sampled_from(get_args(ConcurrencyMode))}),
        "budget": st.fixed_dictionaries({}, optional={"runs_per_day": counts, "calls_per_run": counts}),
        "gate": st.fixed_dictionaries({"talk": st.just("listed"), "actors": st.lists(st.just("user:ada"))}),
    },
)


@given(bodies)
def test_a_policy_survives_a_round_trip(body: Any) -> None:
    policy = policy_from_wire(body)
    assert policy_from_wire(policy_to_wire(policy)) == policy


def test_by_default_participants_see_steer_and_approve() -> None:
    audience = policy_from_wire({}).audience
    assert {audience.see.who, audience.steer.who, audience.approve.who} == {"participants"}


@for_each(
    ("body", "field"),
    [
        ({"audience": {"see": {}}}, "policy.audience.see.who"),
        ({"audience": {"see": {"who": "nobody"}}}, "policy.audience.see.who"),
        ({"audience": {"approve": {"who": "everyone", "actors": ["user:ann"]}}}, "policy.audience.approve.actors"),
        ({"audience": {"steer": {"who": "listed", "actors": ["role:boss"]}}}, "policy.audience.steer.actors"),
        ({"gate": {"talk": "listed", "actors": ["role:boss"]}}, "policy.gate.actors"),
    ],
)
def test_a_contradictory_audience_rule_is_refused(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        policy_from_wire(body)
    assert caught.value.details["field"] == field
    assert caught.value.hint


def test_an_audience_rule_reads_back_the_same() -> None:
    body = {"audience": {"see": {"who": "listed", "actors": ["user:ann", "role:operator", "feishu:*"]}}}
    policy = policy_from_wire(body)
    assert policy_from_wire(policy_to_wire(policy)) == policy

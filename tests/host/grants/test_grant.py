"""Issuing a grant: its bytes, its digest, its state keys, and reading it back."""

from typing import Any, get_args

import msgspec
import pytest
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.agents.policies import BudgetPolicy, StatePolicy
from bollard.host.errors import InvalidRequest
from bollard.host.grants.access import compile_access
from bollard.host.grants.grant import Grant, GrantLimits, GrantParent, issue_grant, limits_of
from bollard.host.log.records import RunFacts, scope_key
from bollard.host.scope import Scope
from bollard.protocol import StateScope, limits
from bollard.trust import canonical_json, canonical_sha256, sha256_of

SCOPES: tuple[StateScope, ...] = get_args(StateScope)


def whole(grant: Grant) -> bytes:
    """The canonical bytes, made the slow way from the grant's parts."""
    return canonical_json(
        msgspec.to_builtins(
            {
                "run_id": grant.run_id,
                "access": grant.access.rights,
                "scope": grant.scope,
                "state_keys": grant.state_keys,
                "limits": grant.limits,
                "graph_sha256": grant.graph_sha256,
                "parent": grant.parent,
            },
            order="deterministic",
        )
    )


@pytest.mark.requirement("P03-07")
def test_the_bytes_are_the_canonical_json_of_the_whole_grant(granting: Any) -> None:
    grant = granting.grant()
    assert grant.json == whole(grant)
    assert grant.sha256 == sha256_of(grant.json)


def test_a_grant_reads_back_the_same(granting: Any) -> None:
    parent = GrantParent(run_id="run-0", grant_sha256="b" * 64, depth=2)
    grant = issue_grant(
        run_id="run-1",
        access=compile_access(granting.agent(), granting.offer),
        scope=granting.scope,
        limits=GrantLimits(deadline_s=1.5, calls_per_run=3),
        graph_sha256="c" * 64,
        parent=parent,
    )
    assert Grant.from_json(grant.json) == grant
    assert (grant.depth, granting.grant().depth) == (2, 0)


@for_each(
    "text",
    [b"", b"{}", b"[]", b"null", b"\xff", b'{"run_id":"\xff"}', b'{"run_id":"run-1","operations":["artifacts.write"]}'],
)
def test_invalid_bytes_are_refused_as_a_grant(text: bytes) -> None:
    with pytest.raises(InvalidRequest, match="cannot be decoded"):
        Grant.from_json(text)


def test_a_grant_with_a_field_of_the_wrong_type_is_refused(granting: Any) -> None:
    text = granting.grant().json
    for old, new in ((b'"revision":0', b'"revision":"0"'), (b'"revision":0', b'"revision":9007199254740993')):
        assert old in text
        with pytest.raises(InvalidRequest, match="cannot be decoded"):
            Grant.from_json(text.replace(old, new))


def test_state_keys_match_those_of_the_log(granting: Any) -> None:
    grant = granting.grant()
    scope = msgspec.structs.asdict(grant.scope)
    facts = RunFacts(
        run_id="any",
        event_id="any",
        binding_id="any",
        grant_sha256="any",
        agent_id="helper",
        runner_id="plugin:acme/helper/default",
        **scope,
    )
    assert grant.state_keys == {each: scope_key(facts, each) for each in SCOPES}


@pytest.mark.requirement("P03-01")
@for_each(
    ("gone", "missing"),
    [
        ({"conversation": None}, {"conversation"}),
        ({"conversation": ""}, {"conversation"}),
        ({"actor_type": None}, {"actor"}),
        ({"actor_id": None}, {"actor"}),
        ({"subject_type": None}, {"subject"}),
        ({"subject_id": None}, {"subject"}),
        ({"bot": None, "thread": None}, set()),
        (
            {"conversation": None, "thread": None, "actor_type": None, "actor_id": None, "subject_id": None},
            {"conversation", "actor", "subject"},
        ),
    ],
)
def test_a_scope_missing_from_the_event_is_not_granted(granting: Any, gone: dict[str, Any], missing: set[str]) -> None:
    grant = granting.grant(scope=msgspec.structs.replace(granting.scope, **gone))
    assert set(grant.state_keys) == set(SCOPES) - missing


@pytest.mark.requirement("P02-20")
@for_each("enabled", [True, False])
@for_each("scopes", [(), ("conversation",), ("runner", "actor")])
def test_the_state_policy_alone_enables_state(granting: Any, enabled: bool, scopes: tuple[StateScope, ...]) -> None:
    agent = granting.with_state(granting.agent(), StatePolicy(enabled=enabled, scopes=scopes))
    assert set(granting.grant(agent).state_keys) == (set(scopes) if enabled else set())


@pytest.mark.requirement("P04-08")
def test_two_agents_have_no_state_key_in_common(granting: Any) -> None:
    one, two = granting.grant(), granting.grant(granting.agent(agent_id="other"))
    assert not {*one.state_keys.values()} & {*two.state_keys.values()}


@pytest.mark.requirement("P04-08")
def test_a_state_key_is_the_digest_of_its_owner(granting: Any) -> None:
    owner = {"workspace": "default", "bot": "bot-1", "agent": "helper", "runner": "plugin:acme/helper/default"}
    added = {
        "conversation": {"conversation": "here", "thread": "t-1"},
        "actor": {"actor_type": "user", "actor_id": "u-1"},
        "subject": {"subject_type": "order", "subject_id": "o-1"},
        "runner": {},
    }
    assert granting.grant().state_keys == {
        scope: canonical_sha256({"scope": scope, **owner, **more}) for scope, more in added.items()
    }


def test_limits_come_from_the_agent_and_the_protocol(granting: Any) -> None:
    agent = granting.agent(deadline_s=7.0, idle_s=3.0)
    agent = replace(agent, policy=replace(agent.policy, budget=BudgetPolicy(calls_per_run=5)))
    assert limits_of(agent) == GrantLimits(
        deadline_s=7.0,
        idle_s=3.0,
        calls_per_s=limits.CALLS_PER_S,
        calls_in_flight=limits.CALLS_IN_FLIGHT,
        calls_per_run=5,
        payload_bytes=limits.CALL_BYTES,
    )


@for_each("field", Scope.__struct_fields__)
def test_every_part_of_the_scope_is_in_the_digest(granting: Any, field: str) -> None:
    other = granting.grant(scope=msgspec.structs.replace(granting.scope, **{field: "another"}))
    assert other.sha256 != granting.grant().sha256

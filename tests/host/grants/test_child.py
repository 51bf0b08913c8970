"""A child run: its access is cut down to its parent's, and so are its scope, its limits and its depth."""

from typing import Any

import msgspec
import pytest
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.agents.policies import AgentPolicy, StatePolicy
from bollard.host.errors import InvalidRequest
from bollard.host.grants.access import compile_access
from bollard.host.grants.check import Denied, check
from bollard.host.grants.child import issue_child_grant, narrow, narrow_limits
from bollard.host.grants.grant import Grant, GrantLimits, GrantParent, issue_grant
from bollard.host.grants.offer import Offer, OfferedTool
from bollard.host.grants.revocation import NOTHING_REVOKED, Revocation, revoke
from bollard.host.scope import Scope
from bollard.protocol import limits


def child_of(granting: Any, parent: Grant, revoked: Revocation = NOTHING_REVOKED, **changes: Any) -> Grant:
    agent = granting.agent(agent_id="child")
    settings: dict[str, Any] = {
        "run_id": "run-2",
        "access": compile_access(agent, granting.offer),
        "scope": parent.scope,
        "limits": GrantLimits(),
        "parent": parent,
        "revoked": revoked,
    }
    return issue_child_grant(**(settings | changes))


def test_the_child_of_a_full_grant_keeps_its_own_access(granting: Any) -> None:
    parent = granting.grant()
    own = compile_access(granting.agent(agent_id="child"), granting.offer)
    assert narrow(own, parent, NOTHING_REVOKED) == own
    child = child_of(granting, parent)
    assert child.parent == GrantParent(run_id="run-1", grant_sha256=parent.sha256, depth=1)
    assert not {*child.state_keys.values()} & {*parent.state_keys.values()}


@pytest.mark.requirement("P06-16")
@pytest.mark.parametrize("empty", ["policy", "revocation"])
def test_the_child_of_a_run_without_rights_has_no_rights(granting: Any, empty: str) -> None:
    nothing = AgentPolicy(state=StatePolicy(enabled=False))
    parent = granting.grant(granting.agent(policy=nothing) if empty == "policy" else None)
    revoked = Revocation(all=True) if empty == "revocation" else NOTHING_REVOKED
    rights = child_of(granting, parent, revoked).access.rights
    assert (rights.operations, rights.state_scopes, rights.steering) == ({}, frozenset(), False)
    assert (rights.conversations, {*rights.resources}) == (frozenset(), set())


@pytest.mark.requirement("P06-16")
def test_a_child_lacks_permissions_revoked_from_its_parent(granting: Any) -> None:
    parent = granting.grant()
    revoked = revoke(
        parent,
        NOTHING_REVOKED,
        operations=["models.embed", "state.actor", "steering.pull", "storage.plugin"],
        resources={"models": ["chat"], "conversations": ["elsewhere"], "skills": ["report"]},
    )
    rights = child_of(granting, parent, revoked).access.rights
    assert rights.operations["models"] == {"invoke", "stream", "rerank"}
    assert {*rights.resources["models"]} == {"sorter"}
    assert rights.withheld_resources["models"] == {"chat": "parent", "vectors": "parent"}
    assert rights.state_scopes == {"conversation", "subject", "runner"}
    assert (rights.steering, rights.conversations, rights.operations["storage"]) == (False, frozenset(), {"workspace"})
    assert "skills" not in rights.resources
    assert rights.withheld_operations == {
        "models.embed": "parent",
        "state.actor": "parent",
        "steering.pull": "parent",
        "storage.plugin": "parent",
    }


def test_a_tool_with_a_changed_definition_is_not_the_parents_tool(granting: Any) -> None:
    tool = OfferedTool(tool_name="clock", tool_type="builtin", risk="low", definition_sha256="b" * 64)
    own = compile_access(granting.agent(), Offer.of(tool))
    assert "tools" not in narrow(own, granting.grant(), NOTHING_REVOKED).rights.resources


def test_each_limit_of_a_child_is_the_smaller_one() -> None:
    one = GrantLimits(deadline_s=1, idle_s=20, calls_per_s=3, calls_in_flight=40, calls_per_run=None, payload_bytes=6)
    two = GrantLimits(deadline_s=10, idle_s=2, calls_per_s=30, calls_in_flight=4, calls_per_run=5, payload_bytes=60)
    least = GrantLimits(deadline_s=1, idle_s=2, calls_per_s=3, calls_in_flight=4, calls_per_run=5, payload_bytes=6)
    assert narrow_limits(one, two) == narrow_limits(two, one) == least
    assert narrow_limits(one, one).calls_per_run is None
    assert narrow_limits(one, GrantLimits(run_output_mib=7)).run_output_mib == 7
    assert narrow_limits(GrantLimits(run_output_mib=7), GrantLimits(run_output_mib=6)).run_output_mib == 6
    assert narrow_limits(two, GrantLimits(calls_per_run=4)).calls_per_run == 4


@for_each(
    ("changes", "field"),
    [
        ({"workspace": "another"}, "workspace"),
        ({"bot": "another"}, "bot"),
        ({"bot": None}, "bot"),
        ({"conversation": "another"}, "conversation"),
        ({"thread": "another"}, "conversation"),
        ({"thread": None}, "conversation"),
        ({"conversation": None}, "conversation"),
        ({"actor_id": "another"}, "actor"),
        ({"actor_type": None}, "actor"),
        ({"subject_id": "another"}, "subject"),
        ({"bot": None, "conversation": None, "thread": None}, "bot"),
        ({"subject_type": "another", "subject_id": None}, "subject"),
    ],
)
def test_a_child_with_another_scope_is_refused(granting: Any, changes: dict[str, Any], field: str) -> None:
    parent = granting.grant()
    with pytest.raises(InvalidRequest) as refused:
        child_of(granting, parent, scope=msgspec.structs.replace(parent.scope, **changes))
    assert refused.value.details["field"] == field


@pytest.mark.parametrize(
    "gone",
    [
        ("conversation", "thread"),
        ("actor_type", "actor_id"),
        ("subject_type", "subject_id"),
        tuple(name for name in Scope.__struct_fields__ if name not in ("workspace", "bot")),
    ],
)
def test_a_child_may_omit_parts_of_the_scope(granting: Any, gone: tuple[str, ...]) -> None:
    parent = granting.grant()
    scope = msgspec.structs.replace(parent.scope, **dict.fromkeys(gone))
    assert child_of(granting, parent, scope=scope).scope == scope


def test_a_child_gets_no_state_outside_the_scope_of_its_parent(granting: Any) -> None:
    agent = granting.with_state(granting.agent(), StatePolicy(scopes=("runner",)))
    assert {*child_of(granting, granting.grant(agent)).state_keys} == {"runner"}


@pytest.mark.requirement("P06-16")
def test_the_deepest_child_runs_but_calls_no_other_agent(granting: Any) -> None:
    grant = granting.grant()
    for depth in range(1, limits.CHILD_RUN_DEPTH + 1):
        assert not isinstance(check(grant, NOTHING_REVOKED, "agents.call", "researcher"), Denied)
        grant = child_of(granting, grant)
        assert grant.depth == depth
    answer = check(grant, NOTHING_REVOKED, "agents.call", "researcher")
    assert isinstance(answer, Denied)
    assert answer.code == "unauthorized"
    assert grant.access.rights.withheld_operations["agents.call"] == "depth"
    with pytest.raises(InvalidRequest, match="4 calls deep"):
        child_of(granting, grant)


def test_a_child_grant_reads_back_the_same(granting: Any) -> None:
    agent = granting.agent()
    parent = issue_grant(
        run_id="run-0",
        access=compile_access(replace(agent, policy=granting.policy(resources={})), granting.offer),
        scope=granting.scope,
        limits=GrantLimits(),
    )
    child = child_of(granting, parent)
    assert Grant.from_json(child.json) == child
    assert {*child.access.rights.withheld_resources} == {
        "models",
        "tools",
        "knowledge_bases",
        "files",
        "agents",
        "skills",
    }

"""Revoking rights of a live run: the valid names, their sum, and their record."""

from typing import Any

import msgspec
import pytest
from tests.tables import for_each

from bollard.host.agents.policies import OPERATIONS
from bollard.host.errors import InvalidRequest
from bollard.host.grants.check import REVOKED, Allowed, check
from bollard.host.grants.revocation import NOTHING_REVOKED, Revocation, granted_operations, granted_things, revoke

ALL = {f"{family}.{name}" for family, names in OPERATIONS.items() for name in names}


def test_the_full_grant_can_lose_every_operation_by_name(granting: Any) -> None:
    states = {f"state.{scope}" for scope in ("conversation", "actor", "subject", "runner")}
    assert granted_operations(granting.grant()) == ALL | states | {"steering.pull"}


def test_an_operation_without_its_scope_is_not_revocable(granting: Any) -> None:
    grant = granting.grant(scope=msgspec.structs.replace(granting.scope, conversation=None))
    assert not granted_operations(grant) & {"steering.pull", "state.conversation"}


@for_each(
    ("operation", "action", "thing", "still", "still_thing"),
    [
        ("models.invoke", "models.invoke", "chat", "models.stream", "chat"),
        ("knowledge_bases.list", "knowledge.list", None, "knowledge.retrieve", "manual"),
        ("artifacts.write", "artifacts.append", "upload-1", "artifacts.read", "artifact-1"),
        ("storage.plugin", "storage.set", "plugin", "storage.set", "workspace"),
        ("files.config", "files.get", "logo", "files.get", "book"),
        ("state.actor", "state.get", "actor", "state.get", "conversation"),
        ("steering.pull", "steering.pull", None, "history.page", None),
        ("history.page", "history.page", "elsewhere", "history.search", None),
        ("platform.request", "platform.request", "message.edit", "tools.call", "clock"),
    ],
)
def test_a_revoked_operation_is_denied_and_the_others_stay(
    granting: Any, operation: str, action: str, thing: str | None, still: str, still_thing: str | None
) -> None:
    grant = granting.grant()
    revoked = revoke(grant, NOTHING_REVOKED, operations=[operation])
    assert check(grant, revoked, action, thing) == REVOKED
    assert check(grant, revoked, still, still_thing) == Allowed()


@for_each(
    ("kind", "thing", "action"),
    [
        ("models", "chat", "models.invoke"),
        ("tools", "clock", "tools.detail"),
        ("knowledge_bases", "manual", "knowledge.retrieve"),
        ("files", "logo", "files.get"),
        ("agents", "researcher", "agents.call"),
        ("platform", "message.edit", "platform.request"),
        ("conversations", "elsewhere", "history.page"),
    ],
)
def test_a_revoked_resource_is_denied_and_the_others_stay(granting: Any, kind: str, thing: str, action: str) -> None:
    grant = granting.grant()
    revoked = revoke(grant, NOTHING_REVOKED, resources={kind: [thing]})
    assert check(grant, revoked, action, thing) == REVOKED
    assert check(grant, revoked, action, "ghost") == check(grant, NOTHING_REVOKED, action, "ghost")


def test_a_skill_can_be_revoked(granting: Any) -> None:
    assert granted_things(granting.grant(), "skills") == {"report"}
    revoked = revoke(granting.grant(), NOTHING_REVOKED, resources={"skills": ["report"]})
    assert revoked.takes("skills", "skills", "report")


def test_two_revocations_add_up(granting: Any) -> None:
    grant = granting.grant()
    first = revoke(grant, NOTHING_REVOKED, operations=["models.invoke"], resources={"models": ["chat"]})
    second = revoke(grant, first, operations=["tools.call"], resources={"models": ["sorter"], "files": ["logo"]})
    assert second.operations == {"models.invoke", "tools.call"}
    assert second.resources == {"models": {"chat", "sorter"}, "files": {"logo"}}
    assert revoke(grant, second, everything=True) == Revocation(
        operations=second.operations, resources=second.resources, all=True
    )


def test_repeating_a_revocation_changes_nothing(granting: Any) -> None:
    grant = granting.grant()
    once = revoke(grant, NOTHING_REVOKED, operations=["models.invoke"])
    assert revoke(grant, once, operations=["models.invoke"]) == once


@for_each(
    ("asked", "named", "field"),
    [
        ({"operations": ["models.paint"]}, "models.paint", "operations"),
        ({"operations": ["models.invoke", "models"]}, "models", "operations"),
        ({"operations": ["knowledge.list"]}, "knowledge.list", "operations"),
        ({"resources": {"models": ["chat", "ghost"]}}, "ghost", "resources.models"),
        ({"resources": {"planets": ["mars"]}}, "mars", "resources.planets"),
        ({"resources": {"conversations": ["here"]}}, "here", "resources.conversations"),
    ],
)
def test_revoking_a_missing_permission_is_refused_by_name(
    granting: Any, asked: dict[str, Any], named: str, field: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"never granted {named}$") as refused:
        revoke(granting.grant(), NOTHING_REVOKED, **asked)
    assert refused.value.details["field"] == field


@pytest.mark.parametrize("asked", [{}, {"operations": []}, {"resources": {}}, {"resources": {"models": []}}])
def test_an_empty_revocation_is_refused(granting: Any, asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="names nothing to revoke"):
        revoke(granting.grant(), NOTHING_REVOKED, **asked)


@pytest.mark.parametrize(
    ("revoked", "data"),
    [
        (NOTHING_REVOKED, {}),
        (Revocation(all=True), {"all": True}),
        (
            Revocation(operations=frozenset({"b.b", "a.a"}), resources={"models": frozenset({"y", "x"})}),
            {"operations": ["a.a", "b.b"], "resources": {"models": ["x", "y"]}},
        ),
    ],
)
def test_a_record_holds_the_whole_revocation(revoked: Revocation, data: dict[str, Any]) -> None:
    assert revoked.data() == data
    assert Revocation.from_data({**data, "by": "admin"}) == revoked


@pytest.mark.parametrize("data", [{"all": "yes"}, {"operations": "models.invoke"}, {"resources": ["chat"]}])
def test_an_invalid_revocation_record_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="cannot be decoded"):
        Revocation.from_data(data)

"""The table of roles and rights, and the actor of a caller."""

from itertools import pairwise

from bollard.host.identity.caller import INSTALLATION_RIGHTS, RIGHTS, RIGHTS_OF, ROLES, Caller, installation, rights_of
from bollard.host.scope import Actor


def test_each_role_may_do_more_than_the_one_before_it() -> None:
    for less, more in pairwise(ROLES):
        assert rights_of(less) < rights_of(more)


def test_every_right_belongs_to_a_role_or_the_installation() -> None:
    assert rights_of("admin") | INSTALLATION_RIGHTS == frozenset(RIGHTS)


def test_no_role_has_installation_rights() -> None:
    assert all(not rights & INSTALLATION_RIGHTS for rights in RIGHTS_OF.values())


def test_a_viewer_only_reads() -> None:
    assert {right.partition(".")[2] for right in rights_of("viewer")} == {"read"}


def test_only_an_admin_adds_users() -> None:
    assert [role for role in ROLES if "users.write" in rights_of(role)] == ["admin"]


def test_only_the_installation_installs_plugins() -> None:
    assert "plugins.write" in INSTALLATION_RIGHTS


def test_only_the_installation_connects_mcp_servers() -> None:
    assert "mcp.write" in INSTALLATION_RIGHTS


def test_a_viewer_reads_approvals_and_a_member_decides() -> None:
    assert [role for role in ROLES if "approvals.read" in rights_of(role)] == list(ROLES)
    assert [role for role in ROLES if "approvals.decide" in rights_of(role)] == ["member", "operator", "admin"]


def test_only_an_admin_saves_secrets_and_exports_the_audit() -> None:
    assert [role for role in ROLES if "secrets.write" in rights_of(role)] == ["admin"]
    assert [role for role in ROLES if "audit.export" in rights_of(role)] == ["admin"]


def test_a_member_cannot_act_for_another_actor() -> None:
    assert [role for role in ROLES if "actors.assume" in rights_of(role)] == ["operator", "admin"]


def test_the_installation_has_every_right_and_no_actor() -> None:
    caller = installation("elsewhere")
    assert caller.rights == frozenset(RIGHTS)
    assert (caller.workspace, caller.name, caller.actor) == ("elsewhere", "admin-token", None)


def test_the_actor_of_a_caller_is_its_user_or_else_its_key() -> None:
    session = Caller(workspace="w", kind="session", name="user:ann", user_id="ann", role="member")
    own_key = Caller(workspace="w", kind="key", name="key:12", user_id="ann", role="member")
    key = Caller(workspace="w", kind="key", name="key:12")
    assert session.actor == own_key.actor == Actor("user", "ann")
    assert key.actor == Actor("key", "12")


def test_a_caller_without_rights_may_do_nothing() -> None:
    caller = Caller(workspace="w", kind="key", name="key:1")
    assert not any(caller.may(right) for right in RIGHTS)

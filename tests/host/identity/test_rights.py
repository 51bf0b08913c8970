"""The table of roles and rights, and the actor of a caller."""

from itertools import pairwise

from bollard.host.identity.caller import INSTALLATION_RIGHTS, RIGHTS, RIGHTS_OF, ROLES, Caller, installation, rights_of
from bollard.host.scope import Actor


def test_each_role_may_do_more_than_the_one_before_it() -> None:
    for less, more in pairwise(ROLES):
        assert rights_of(less) < rights_of(more)


def test_every_right_is_somebodys() -> None:
    assert rights_of("admin") | INSTALLATION_RIGHTS == frozenset(RIGHTS)


def test_what_reaches_beyond_a_workspace_is_no_roles() -> None:
    assert all(not rights & INSTALLATION_RIGHTS for rights in RIGHTS_OF.values())


def test_a_viewer_only_reads() -> None:
    assert {right.partition(".")[2] for right in rights_of("viewer")} == {"read"}


def test_only_an_admin_brings_in_people() -> None:
    assert [role for role in ROLES if "users.write" in rights_of(role)] == ["admin"]


def test_code_is_brought_in_by_the_installation_alone_because_it_runs_as_the_host() -> None:
    assert "plugins.write" in INSTALLATION_RIGHTS


def test_an_mcp_server_is_connected_by_the_installation_alone_because_a_command_runs_as_the_host() -> None:
    assert "mcp.write" in INSTALLATION_RIGHTS


def test_a_viewer_sees_what_waits_for_a_decision_and_a_member_decides() -> None:
    assert [role for role in ROLES if "approvals.read" in rights_of(role)] == list(ROLES)
    assert [role for role in ROLES if "approvals.decide" in rights_of(role)] == ["member", "operator", "admin"]


def test_only_an_admin_brings_in_secrets_and_takes_out_the_record() -> None:
    assert [role for role in ROLES if "secrets.write" in rights_of(role)] == ["admin"]
    assert [role for role in ROLES if "audit.export" in rights_of(role)] == ["admin"]


def test_a_member_cannot_speak_as_somebody_else() -> None:
    assert [role for role in ROLES if "actors.assume" in rights_of(role)] == ["operator", "admin"]


def test_the_installation_may_do_everything_everywhere_and_is_nobody() -> None:
    caller = installation("elsewhere")
    assert caller.rights == frozenset(RIGHTS)
    assert (caller.workspace, caller.name, caller.actor) == ("elsewhere", "admin-token", None)


def test_a_user_speaks_as_themselves_also_with_a_key_and_a_key_without_one_as_the_key() -> None:
    session = Caller(workspace="w", kind="session", name="user:ann", user_id="ann", role="member")
    own_key = Caller(workspace="w", kind="key", name="key:12", user_id="ann", role="member")
    key = Caller(workspace="w", kind="key", name="key:12")
    assert session.actor == own_key.actor == Actor("user", "ann")
    assert key.actor == Actor("key", "12")


def test_a_caller_that_was_given_nothing_may_do_nothing() -> None:
    caller = Caller(workspace="w", kind="key", name="key:1")
    assert not any(caller.may(right) for right in RIGHTS)

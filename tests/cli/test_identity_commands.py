"""`bollard users`, `keys`, `workspaces`, `login`, `logout` and `whoami` against a real host."""

from pathlib import Path

import pytest
from tests.tables import for_each

from bollard.cli.errors import UsageProblem
from bollard.cli.terminal.times import seconds_of

pytestmark = pytest.mark.full


PASSWORD = "correct horse battery"


@pytest.fixture
def ask(bollard, steady_host):
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


@pytest.fixture
def user(ask):
    """Add users, and delete them when the test is over."""
    added: list[str] = []

    def add(user_id: str, role: str, *more: str):
        added.append(user_id)
        return ask("users", "add", user_id, "--role", role, "--password-stdin", *more, stdin=f"{PASSWORD}\n")

    yield add
    for user_id in added:
        ask("users", "delete", user_id)


def test_a_user_is_added_changed_and_deleted(ask, user) -> None:
    assert user("una", "viewer", "--name", "Una").json["role"] == "viewer"
    changed = ask("users", "set", "una", "--role", "operator", "--disable").json
    assert (changed["role"], changed["name"], changed["disabled"], changed["revision"]) == ("operator", "Una", True, 2)
    assert "una" in ask("users", "--text").out
    assert "disabled" in ask("users", "--text").out
    assert "已停用" in ask("users", "--text", BOLLARD_LANG="zh_Hans").out
    assert ask("users", "set", "una", "--enable").json["disabled"] is False
    assert ask("users", "delete", "una", "--text").out == "deleted user una\n"
    refused = ask("users", "set", "una", "--role", "admin")
    assert refused.err == "bollard: the host says: there is no such user\nhint: `bollard users` lists them\n"


def test_an_existing_user_is_not_added_again(user, ask) -> None:
    assert user("ulf", "viewer", "--text").out == "added user ulf (viewer)\n"
    refused = ask("users", "add", "ulf", "--role", "admin", "--no-password")
    assert refused.code == 2
    assert refused.err.startswith("bollard: user ulf already exists\nhint: change the user with `bollard users set`")
    assert [item["role"] for item in ask("users").json["items"] if item["user_id"] == "ulf"] == ["viewer"]


def test_a_user_is_shown(user, ask) -> None:
    user("ute", "viewer", "--name", "Ute")
    assert ask("users", "show", "ute").json["role"] == "viewer"
    assert ask("users", "show", "ute", "--text").out == "ute Ute (viewer): active\n"
    assert ask("users", "show", "nobody").err.startswith("bollard: the host says: there is no such user\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("keys", "add", "--name", "k", "--right", "runs.creat"), "did you mean runs.create?"),
        (("users", "add", "uta", "--role", "king", "--no-password"), "use one of viewer, member, operator, admin"),
        (("users", "set", "uta", "--role", "opertor"), "did you mean operator?"),
    ],
)
def test_an_unknown_choice_is_refused_with_the_choices(ask, arguments: tuple[str, ...], said: str) -> None:
    refused = ask(*arguments)
    assert refused.code == 2
    assert refused.err.endswith(f"hint: {said}\n")


@pytest.mark.parametrize(
    ("stdin", "said"),
    [("", "stdin has no password on its first line"), ("short\n", "a password has 10 to 256 characters")],
)
def test_an_invalid_password_adds_no_user(ask, stdin: str, said: str) -> None:
    refused = ask("users", "add", "uwe", "--role", "viewer", "--password-stdin", stdin=stdin)
    assert refused.code in (2, 4)
    assert said in refused.err
    assert "hint: " in refused.err
    assert all(item["user_id"] != "uwe" for item in ask("users").json["items"])


def test_without_a_terminal_a_password_prompt_is_refused_with_a_hint(ask) -> None:
    refused = ask("users", "add", "uwe", "--role", "viewer", stdin="")
    assert refused.code == 2
    assert refused.err.endswith("hint: use --password-stdin and pipe the password in\n")


def test_a_user_logs_in_has_an_identity_and_logs_out(ask, user, tmp_path: Path) -> None:
    user("lea", "member")
    own = {"BOLLARD_TOKEN": "", "XDG_CONFIG_HOME": str(tmp_path)}
    told = ask("login", "lea", "--password-stdin", "--text", stdin=f"{PASSWORD}\n", **own)
    assert told.out.startswith("logged in as lea (member) in default, until ")
    kept = (tmp_path / "bollard/credentials.json").read_text()
    assert "bls_" in kept
    shown = ask("whoami", **own).json
    assert (shown["name"], shown["role"]) == ("user:lea", "member")
    assert "user:lea in workspace default\nrole: member\n" in ask("whoami", "--text", **own).out
    said = ask("chat", "--agent", "echo", "--message", "hello", "--text", **own)
    assert said.code == 0, said.err
    runs = ask("runs", **own).json["items"]
    assert '"lea"' in ask("runs", "records", runs[0]["run_id"], **own).out
    assert ask("users", **own).code == 4
    assert ask("logout", "--text", **own).out.startswith("logged out of ")
    assert ask("whoami", **own).code == 4
    again = ask("logout", **own)
    assert again.code == 2
    assert "not logged in to http" in again.err


def test_a_wrong_password_is_reported_in_the_words_of_the_host(ask, user) -> None:
    user("lou", "member")
    refused = ask("login", "lou", "--password-stdin", stdin="wrong password\n")
    assert refused.err == (
        "bollard: the host says: the workspace, the user or the password is wrong\n"
        "hint: check all three and try again\n"
    )


def test_a_password_is_set_and_changed(ask, user, tmp_path: Path) -> None:
    user("pia", "viewer")
    own = {"BOLLARD_TOKEN": "", "XDG_CONFIG_HOME": str(tmp_path)}
    second, third = "another password", "a third password"
    told = ask("users", "password", "pia", "--password-stdin", "--text", stdin=f"{second}\n")
    assert told.out == "password of pia set; their sessions have ended\n"
    assert ask("login", "pia", "--password-stdin", stdin=f"{second}\n", **own).code == 0
    told = ask("users", "password", "--password-stdin", "--text", stdin=f"{second}\n{third}\n", **own)
    assert told.out == "password changed; your other sessions have ended\n"
    assert ask("whoami", **own).code == 0
    assert ask("login", "pia", "--password-stdin", stdin=f"{third}\n", **own).code == 0


def test_a_key_is_created_shown_used_and_deleted(ask) -> None:
    made = ask(
        "keys", "add", "--name", "ci", "--right", "runs.create", "--right", "agents.read", "--expires", "12h"
    ).json
    token, key_id = made["token"], made["key_id"]
    assert made["expires_at"] - made["created_at"] == 12 * 3600
    assert ask("agents", BOLLARD_TOKEN=token).code == 0
    assert ask("whoami", BOLLARD_TOKEN=token).json["rights"] == ["runs.create", "agents.read"]
    told = ask("keys", "show", key_id, "--text").out
    assert told.startswith(f"{key_id} (ci)\nrights: runs.create, agents.read\ncreated by admin-token at ")
    assert "last used at " in told
    assert token not in ask("keys").out
    assert key_id in ask("keys", "--text").out
    assert ask("keys", "delete", key_id, "--text").out == f"deleted key {key_id}\n"
    assert ask("agents", BOLLARD_TOKEN=token).code == 4


def test_a_new_key_is_shown_once_with_a_notice(ask) -> None:
    lines = ask("keys", "add", "--name", "me", "--right", "runs.read", "--text").out.splitlines()
    assert lines[1].startswith("blk_")
    assert lines[2] == "Save it now: it is not shown again."
    ask("keys", "delete", lines[1].split("_")[1])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--name", "k", "--right", "everything"), "--right cannot be 'everything'"),
        (("--name", "k", "--right", "runs.read", "--expires", "soon"), "'soon' is not a duration"),
        (("--name", "k"), "--right"),
    ],
)
def test_an_invalid_key_request_is_refused(ask, arguments: tuple[str, ...], said: str) -> None:
    refused = ask("keys", "add", *arguments)
    assert refused.code != 0
    assert said in refused.err
    assert "hint: " in refused.err


@for_each(("given", "seconds"), [("90d", 90 * 86400), ("12h", 43200), ("30m", 1800), ("45s", 45), ("2w", 1209600)])
def test_a_duration_is_read(given: str, seconds: int) -> None:
    assert seconds_of(given) == seconds


@for_each("given", ["", "d", "0d", "-1d", "1.5h", "90", "90 d", "1y", "٣d", "99999999d"])
def test_an_invalid_duration_is_refused(given: str) -> None:
    with pytest.raises(UsageProblem):
        seconds_of(given)


def test_a_workspace_is_created_used_and_deleted(ask) -> None:
    added = ask("workspaces", "add", "far", "--name", "Far", "--text").out
    assert added == "created workspace far; commands go there with BOLLARD_WORKSPACE=far\n"
    assert ask("workspaces", "add", "far").code == 4
    assert [item["workspace_id"] for item in ask("workspaces").json["items"]][:2] == ["default", "far"]
    far = {"BOLLARD_WORKSPACE": "far"}
    assert ask("whoami", **far).json["workspace"] == "far"
    assert ask("runs", **far).json["items"] == []
    assert ask("workspaces", "rename", "far", "Further").json["name"] == "Further"
    assert "Further" in ask("workspaces", "--text").out
    assert ask("workspaces", "delete", "far", "--text").out == "deleted workspace far\n"
    refused = ask("runs", **far)
    assert "there is no such workspace" in refused.err


def test_an_actor_of_a_channel_is_linked_to_a_user(ask, user) -> None:
    user("lin", "viewer")
    assert ask("users", "link", "feishu:ou_9", "lin", "--text").out == "linked feishu:ou_9 to lin\n"
    assert "feishu:ou_9 is lin" in ask("users", "links", "--text").out
    assert ask("users", "unlink", "feishu:ou_9").json["deleted"] is True
    gone = ask("users", "unlink", "feishu:ou_9")
    assert gone.err == "bollard: feishu:ou_9 is not linked to a user\nhint: list the links with `bollard users links`\n"

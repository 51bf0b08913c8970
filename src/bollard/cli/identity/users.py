"""`bollard users …`: the people of a workspace, their passwords, and the actors of channels that are linked to them."""

from typing import Annotated, Any, Final

import typer

from bollard.cli.client.documents import Resource
from bollard.cli.command import CommandGroup
from bollard.cli.errors import HostRefusal, UsageProblem
from bollard.cli.language import Text
from bollard.cli.options import given_values, one_of
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column, printable
from bollard.cli.terminal.prompt import PasswordStdin, ask_new_password, ask_password

USERS: Final = Resource(path="/api/v1/users", key="user_id")
LINKS: Final = Resource(path="/api/v1/actors", key="link_id")
UserId = Annotated[str, typer.Argument(metavar="USER", help="users.id")]
ActorArgument = Annotated[str, typer.Argument(metavar="TYPE:ID", help="users.actor")]
RoleOption = Annotated[str, typer.Option("--role", metavar="viewer|member|operator|admin", help="users.role")]
NameOption = Annotated[str | None, typer.Option("--name", metavar="NAME", help="users.name")]


def _state(user: dict[str, Any], text: Text) -> str:
    if user["disabled"]:
        return text("users.state.disabled")
    return text("users.state.active" if user["password"] else "users.state.no_password")


def _user_lines(user: dict[str, Any], text: Text) -> list[str]:
    name = printable(user.get("name") or "")
    return [text("users.head", user=user["user_id"], name=name, role=user["role"], state=_state(user, text))]


app = CommandGroup("users")
app.add_list(
    USERS,
    (Column("user", "user_id"), Column("name", "name"), Column("role", "role"), Column("state", _state)),
    none="users.none",
)


@app.command("add")
def add(
    shell: HostShell,
    user: UserId,
    role: RoleOption,
    name: NameOption = None,
    password_stdin: PasswordStdin = False,
    no_password: Annotated[bool, typer.Option("--no-password", help="users.no_password")] = False,
) -> int:
    body = given_values({"role": _role(role), "revision": 0, "name": name})
    if not no_password:
        body["password"] = ask_new_password(shell.text, from_stdin=password_stdin)
    try:
        saved = shell.put(USERS.one(user), body)
    except HostRefusal as refused:
        if refused.code != "conflict":
            raise
        raise UsageProblem("error.user_there", "hint.user_there", user=user) from refused
    return shell.tell(saved, shell.text("users.added", user=user, role=saved["role"]))


app.add_show(USERS, ("user", UserId), _user_lines)


@app.command("set")
def change(
    shell: HostShell,
    user: UserId,
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE", help="users.role")] = None,
    name: NameOption = None,
    disabled: Annotated[bool | None, typer.Option("--disable/--enable", help="users.disable")] = None,
) -> int:
    wanted = {"role": None if role is None else _role(role), "name": name, "disabled": disabled}
    saved = _edit(shell, user, given_values(wanted), without=("password", "user_id"))
    return shell.tell(saved, shell.text("users.saved", user=user, role=saved["role"]))


@app.command("password")
def password(
    shell: HostShell,
    user: Annotated[str | None, typer.Argument(metavar="[USER]", help="users.password.id")] = None,
    password_stdin: PasswordStdin = False,
) -> int:
    if user is None:
        old = ask_password(shell.text, from_stdin=password_stdin, key="password.old")
        new = ask_new_password(shell.text, from_stdin=password_stdin)
        answer = shell.post("/api/v1/session/password", {"old": old, "new": new})
        return shell.tell(answer, shell.text("users.password_changed"))
    new = ask_new_password(shell.text, from_stdin=password_stdin)
    saved = _edit(shell, user, {"password": new}, without=("user_id",))
    return shell.tell(saved, shell.text("users.password_set", user=user))


app.add_delete(USERS, ("user", UserId))


@app.command("links")
def links(shell: HostShell) -> int:
    items = shell.all(LINKS)
    lines = [shell.text("users.link_line", actor=printable(item["actor"]), user=item["user_id"]) for item in items]
    return shell.show({"items": items}, lines or [shell.text("users.no_links")])


@app.command("link")
def link(shell: HostShell, actor: ActorArgument, user: UserId) -> int:
    saved = shell.post(LINKS.path, {"actor": actor, "user_id": user})
    return shell.tell(saved, shell.text("users.linked", actor=actor, user=user))


@app.command("unlink")
def unlink(shell: HostShell, actor: ActorArgument) -> int:
    found = next((item for item in shell.all(LINKS) if item["actor"] == actor), None)
    if found is None:
        raise UsageProblem("error.no_such_link", "hint.no_such_link", actor=actor)
    return shell.tell(shell.delete(LINKS.one(found["link_id"])), shell.text("users.unlinked", actor=actor))


def _edit(shell: HostShell, user: str, changes: dict[str, Any], *, without: tuple[str, ...]) -> dict[str, Any]:
    """Save a changed user; the revision detects concurrent changes."""
    shown = shell.get(USERS.one(user))
    return shell.put(USERS.one(user), {name: value for name, value in shown.items() if name not in without} | changes)


def _role(role: str) -> str:
    from bollard.host.identity.caller import ROLES

    return one_of("--role", role, ROLES)

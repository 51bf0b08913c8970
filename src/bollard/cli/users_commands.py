"""`bollard users …`: the people of a workspace, their passwords, and which actors of channels they are."""

import os
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from bollard.cli.app import Command, Group
from bollard.cli.columns import printable
from bollard.cli.documents import DocumentKind
from bollard.cli.errors import HostRefusal, UsageProblem
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.listing import listed
from bollard.cli.passwords import PasswordStdin, ask_new_password, ask_password
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["app"]

app = typer.Typer(cls=Group, help="users", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

USERS = DocumentKind(path="/api/v1/users", key="user_id")
LINKS = DocumentKind(path="/api/v1/actors", key="link_id")
UserId = Annotated[str, typer.Argument(metavar="USER", help="users.id")]
RoleOption = Annotated[str, typer.Option("--role", metavar="viewer|member|operator|admin", help="users.role")]
NameOption = Annotated[str | None, typer.Option("--name", metavar="NAME", help="users.name")]


@app.callback()
def users(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="users.list")
def list_users(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token)


@app.command("add", cls=Command, help="users.add")
def add(
    ctx: typer.Context,
    user: UserId,
    role: RoleOption,
    name: NameOption = None,
    password_stdin: PasswordStdin = False,
    no_password: Annotated[bool, typer.Option("--no-password", help="users.no_password")] = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell: Shell = ctx.obj
    client = find_host(url, token, os.environ)
    body: JsonObject = {"role": _role(role), "revision": 0}
    if name is not None:
        body["name"] = name
    if not no_password:
        body["password"] = ask_new_password(shell.text, from_stdin=password_stdin)
    try:
        saved = asyncio.run(client.put(_one(user), body))
    except HostRefusal as refused:
        if refused.code != "conflict":
            raise
        raise UsageProblem("error.user_there", "hint.user_there", user=user) from refused
    return shell.tell(saved, shell.text("users.added", user=user, role=saved["role"]))


@app.command("show", cls=Command, help="users.show")
def show(ctx: typer.Context, user: UserId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    found = asyncio.run(USERS.get(find_host(url, token, os.environ), user))
    state = _state(found, ctx.obj)
    name = printable(str(found.get("name") or ""))
    return ctx.obj.tell(found, ctx.obj.text("users.head", user=user, name=name, role=found["role"], state=state))


@app.command("set", cls=Command, help="users.set")
def change(
    ctx: typer.Context,
    user: UserId,
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE", help="users.role")] = None,
    name: NameOption = None,
    disabled: Annotated[bool | None, typer.Option("--disable/--enable", help="users.disable")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell: Shell = ctx.obj
    client = find_host(url, token, os.environ)
    wanted = {"role": role if role is None else _role(role), "name": name, "disabled": disabled}

    async def edit() -> "JsonObject":
        shown = await client.get(_one(user))
        body: JsonObject = {field: value for field, value in shown.items() if field not in ("password", "user_id")}
        return await client.put(
            _one(user), body | {field: value for field, value in wanted.items() if value is not None}
        )

    saved = asyncio.run(edit())
    return shell.tell(saved, shell.text("users.saved", user=user, role=saved["role"]))


@app.command("password", cls=Command, help="users.password")
def password(
    ctx: typer.Context,
    user: Annotated[str | None, typer.Argument(metavar="[USER]", help="users.password.id")] = None,
    password_stdin: PasswordStdin = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell: Shell = ctx.obj
    client = find_host(url, token, os.environ)
    if user is None:
        old = ask_password(shell.text, from_stdin=password_stdin, key="password.old")
        new = ask_new_password(shell.text, from_stdin=password_stdin)
        answer = asyncio.run(client.post("/api/v1/session/password", {"old": old, "new": new}))
        return shell.tell(answer, shell.text("users.password_changed"))
    new = ask_new_password(shell.text, from_stdin=password_stdin)

    async def edit() -> "JsonObject":
        shown = await client.get(_one(user))
        body: JsonObject = {field: value for field, value in shown.items() if field != "user_id"}
        return await client.put(_one(user), body | {"password": new})

    return shell.tell(asyncio.run(edit()), shell.text("users.password_set", user=user))


@app.command("delete", cls=Command, help="users.delete")
def delete(ctx: typer.Context, user: UserId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    answer = asyncio.run(find_host(url, token, os.environ).delete(_one(user)))
    return ctx.obj.tell(answer, ctx.obj.text("users.deleted", user=user))


@app.command("links", cls=Command, help="users.links")
def links(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    items = asyncio.run(LINKS.all(find_host(url, token, os.environ)))
    if shell.for_programs:
        shell.print_json({"items": items})
        return 0
    if not items:
        shell.print(shell.text("users.no_links"))
    for item in items:
        shell.print(shell.text("users.link_line", actor=printable(item["actor"]), user=item["user_id"]))
    return 0


@app.command("link", cls=Command, help="users.link")
def link(
    ctx: typer.Context,
    actor: Annotated[str, typer.Argument(metavar="TYPE:ID", help="users.actor")],
    user: UserId,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    body: JsonObject = {"actor": actor, "user_id": user}
    saved = asyncio.run(find_host(url, token, os.environ).post(LINKS.path, body))
    return ctx.obj.tell(saved, ctx.obj.text("users.linked", actor=actor, user=user))


@app.command("unlink", cls=Command, help="users.unlink")
def unlink(
    ctx: typer.Context,
    actor: Annotated[str, typer.Argument(metavar="TYPE:ID", help="users.actor")],
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    client = find_host(url, token, os.environ)

    async def find_and_delete() -> "JsonObject":
        found = next((item for item in await LINKS.all(client) if item["actor"] == actor), None)
        if found is None:
            raise UsageProblem("error.no_such_link", "hint.no_such_link", actor=actor)
        return await LINKS.delete(client, found["link_id"])

    return ctx.obj.tell(asyncio.run(find_and_delete()), ctx.obj.text("users.unlinked", actor=actor))


def _role(role: str) -> str:
    from bollard.cli.choices import one_of
    from bollard.host.identity.rights import ROLES

    return one_of("--role", role, ROLES)


def _state(user: "JsonObject", shell: Shell) -> str:
    if user["disabled"]:
        return shell.text("users.state.disabled")
    return shell.text("users.state.active" if user["password"] else "users.state.no_password")


def _one(user: str) -> str:
    return f"{USERS.path}/{quote(user, safe='')}"


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    items = listed(shell, USERS, url, token, none="users.none")
    if not items:
        return 0
    from bollard.cli.tables import plain_table

    text = shell.text
    table = plain_table(text("users.column.user"), text("users.column.name"), text("users.column.role"))
    table.add_column(text("users.column.state"))
    for item in items:
        table.add_row(item["user_id"], printable(item.get("name", "")), item["role"], _state(item, shell))
    shell.console().print(table)
    return 0

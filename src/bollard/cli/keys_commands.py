"""`bollard keys …`: API keys for programs. A token is printed once."""

import os
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bollard.cli.app import Command, Group
from bollard.cli.columns import printable
from bollard.cli.documents import DocumentKind
from bollard.cli.durations import seconds_of
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.listing import listed
from bollard.cli.moments import day_of
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["app"]

app = typer.Typer(cls=Group, help="keys", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

KEYS = DocumentKind(path="/api/v1/keys", key="key_id")
KeyId = Annotated[str, typer.Argument(metavar="KEY", help="keys.id")]


@app.callback()
def keys(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="keys.list")
def list_keys(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token)


@app.command("add", cls=Command, help="keys.add")
def add(
    ctx: typer.Context,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="keys.name")],
    right: Annotated[list[str], typer.Option("--right", metavar="RIGHT", help="keys.right")],
    expires: Annotated[str, typer.Option("--expires", metavar="90d|12h|…", help="keys.expires")] = "90d",
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli.choices import one_of
    from bollard.host.identity.rights import RIGHTS

    shell: Shell = ctx.obj
    rights = [one_of("--right", each, RIGHTS) for each in right]
    body: JsonObject = {"name": name, "rights": [*rights], "expires_in_s": seconds_of(expires)}
    made = cast("dict[str, Any]", asyncio.run(find_host(url, token, os.environ).post(KEYS.path, body)))
    return shell.tell(
        made,
        shell.text("keys.added", key=made["key_id"], until=day_of(made["expires_at"])),
        made["token"],
        shell.text("keys.once"),
    )


@app.command("show", cls=Command, help="keys.show")
def show(ctx: typer.Context, key: KeyId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    found = cast("dict[str, Any]", asyncio.run(KEYS.get(find_host(url, token, os.environ), key)))
    if shell.for_programs:
        shell.print_json(found)
        return 0
    text = shell.text
    shell.print(text("keys.head", key=found["key_id"], name=printable(found["name"])))
    shell.print(text("keys.rights", rights=", ".join(found["rights"])))
    shell.print(text("keys.made", by=printable(found["made_by"]), at=day_of(found["created_at"])))
    shell.print(text("keys.expired" if found["expired"] else "keys.until", at=day_of(found["expires_at"])))
    used = found.get("last_used_at")
    shell.print(text("keys.unused") if used is None else text("keys.used", at=day_of(used)))
    return 0


@app.command("delete", cls=Command, help="keys.delete")
def delete(ctx: typer.Context, key: KeyId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    answer = asyncio.run(KEYS.delete(find_host(url, token, os.environ), key))
    return shell.tell(answer, shell.text("keys.deleted", key=key))


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    items = listed(shell, KEYS, url, token, none="keys.none")
    if not items:
        return 0
    text = shell.text
    from bollard.cli.tables import plain_table

    table = plain_table(text("keys.column.key"), text("keys.column.name"), text("keys.column.rights"))
    table.add_column(text("keys.column.until"))
    table.add_column(text("keys.column.used"))
    for item in items:
        used = item.get("last_used_at")
        until = text("keys.state.expired") if item["expired"] else day_of(item["expires_at"])
        table.add_row(
            item["key_id"],
            printable(item["name"]),
            ", ".join(item["rights"]),
            until,
            text("keys.state.unused") if used is None else day_of(used),
        )
    shell.console().print(table)
    return 0

"""`bollard secrets …`: sets, lists and removes secrets. A value comes from a pipe or the terminal, never as an option,
where the shell's history and the list of processes would have it; and it is never shown again."""

import getpass
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote

import typer

from bollard.cli.app import Command, Group
from bollard.cli.columns import printable
from bollard.cli.documents import DocumentKind
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.listing import listed
from bollard.cli.moments import day_of
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["app"]

app = typer.Typer(cls=Group, help="secrets", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

SECRETS = DocumentKind(path="/api/v1/secrets", key="secret_name")
SecretName = Annotated[str, typer.Argument(metavar="NAME", help="secrets.name")]


@app.callback()
def secrets(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="secrets.list")
def list_secrets(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token)


@app.command("set", cls=Command, help="secrets.set")
def set_secret(ctx: typer.Context, name: SecretName, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    client = find_host(url, token, os.environ)
    body: JsonObject = {"value": _asked(shell)}
    saved = cast("dict[str, Any]", asyncio.run(client.put(f"{SECRETS.path}/{quote(name, safe='')}", body)))
    if shell.for_programs:
        shell.print_json(saved)
        return 0
    shell.print(shell.text("secrets.saved", name=name, reference=f"secret:{name}"))
    if not saved["masked"]:
        shell.print(shell.text("secrets.short"))
    return 0


@app.command("remove", cls=Command, help="secrets.remove")
def remove(ctx: typer.Context, name: SecretName, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    answer = asyncio.run(SECRETS.delete(find_host(url, token, os.environ), name))
    return shell.tell(answer, shell.text("secrets.removed", name=name))


def _asked(shell: Shell) -> str:
    """The whole of a pipe without its last line end, or what a person types."""
    if sys.stdin.isatty():
        value = getpass.getpass(f"{shell.text('secrets.ask')}: ")
    else:
        value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise UsageProblem("error.secret_empty", "hint.secret_empty")
    return value


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    items = listed(shell, SECRETS, url, token, none="secrets.none")
    if not items:
        return 0
    text = shell.text
    from bollard.cli.tables import plain_table

    table = plain_table(text("secrets.column.name"), text("secrets.column.set"), text("secrets.column.used"))
    table.add_column(text("secrets.column.state"))
    for item in items:
        used = item.get("last_used_at")
        table.add_row(
            printable(item["secret_name"]),
            f"{day_of(item['set_at'])} {printable(item['set_by'])}",
            text("secrets.never") if used is None else day_of(used),
            text("secrets.readable" if item["readable"] else "secrets.unreadable"),
        )
    shell.console().print(table)
    return 0

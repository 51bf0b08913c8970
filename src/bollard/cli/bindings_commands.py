"""`bollard bindings …`: lists, shows, saves and deletes which events go to which agent."""

import os
from typing import Annotated

import typer

from bollard.cli.app import Command, Group
from bollard.cli.documents import BINDINGS, DocumentFile
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.listing import listed
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(cls=Group, help="bindings", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

BindingId = Annotated[str, typer.Argument(metavar="ID", help="bindings.id")]


@app.callback()
def bindings(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="bindings.list")
def list_bindings(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token)


@app.command("show", cls=Command, help="bindings.show")
def show(ctx: typer.Context, binding: BindingId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    found = asyncio.run(BINDINGS.get(find_host(url, token, os.environ), binding))
    if shell.for_programs:
        return shell.tell(found)
    from bollard.cli.documents_text import binding_lines

    return shell.tell(found, *binding_lines(found, shell.text))


@app.command("save", cls=Command, help="bindings.save")
def save(ctx: typer.Context, file: DocumentFile, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    saved = asyncio.run(BINDINGS.save(find_host(url, token, os.environ), file))
    return shell.tell(saved, shell.text("bindings.saved", binding=saved["binding_id"], agent=saved["agent_id"]))


@app.command("delete", cls=Command, help="bindings.delete")
def delete(ctx: typer.Context, binding: BindingId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    answer = asyncio.run(BINDINGS.delete(find_host(url, token, os.environ), binding))
    return shell.tell(answer, shell.text("bindings.deleted", binding=binding))


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    items = listed(shell, BINDINGS, url, token, none="bindings.none")
    if not items:
        return 0
    from bollard.cli.documents_text import bindings_table

    shell.console().print(bindings_table(items, shell.text))
    return 0

"""`bollard bindings …`: lists, shows, saves and deletes which events go to which agent."""

import os
from typing import Annotated

import typer

from bollard.cli.app import Command, Group
from bollard.cli.documents import BINDINGS, DocumentFile
from bollard.cli.host_client import TokenOption, UrlOption, find_host
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
        shell.print_json(found)
        return 0
    from bollard.cli.documents_text import binding_lines

    for line in binding_lines(found, shell.text):
        shell.print(line)
    return 0


@app.command("save", cls=Command, help="bindings.save")
def save(ctx: typer.Context, file: DocumentFile, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    saved = asyncio.run(BINDINGS.save(find_host(url, token, os.environ), file))
    if shell.for_programs:
        shell.print_json(saved)
    else:
        shell.print(shell.text("bindings.saved", binding=saved["binding_id"], agent=saved["agent_id"]))
    return 0


@app.command("delete", cls=Command, help="bindings.delete")
def delete(ctx: typer.Context, binding: BindingId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    answer = asyncio.run(BINDINGS.delete(find_host(url, token, os.environ), binding))
    if shell.for_programs:
        shell.print_json(answer)
    else:
        shell.print(shell.text("bindings.deleted", binding=binding))
    return 0


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    import asyncio

    items = asyncio.run(BINDINGS.all(find_host(url, token, os.environ)))
    if shell.for_programs:
        shell.print_json({"items": items})
        return 0
    if not items:
        shell.print(shell.text("bindings.none"))
        return 0
    from bollard.cli.documents_text import bindings_table

    shell.console().print(bindings_table(items, shell.text))
    return 0

"""`bollard workspaces …`: what isolates one team's things from another's."""

import os
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from bollard.cli.app import Command, Group
from bollard.cli.columns import printable
from bollard.cli.documents import DocumentKind
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.listing import listed
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["app"]

app = typer.Typer(
    cls=Group, help="workspaces", rich_markup_mode=None, add_completion=False, invoke_without_command=True
)

WORKSPACES = DocumentKind(path="/api/v1/workspaces", key="workspace_id")
WorkspaceId = Annotated[str, typer.Argument(metavar="WORKSPACE", help="workspaces.id")]


@app.callback()
def workspaces(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="workspaces.list")
def list_workspaces(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token)


@app.command("add", cls=Command, help="workspaces.add")
def add(
    ctx: typer.Context,
    workspace: WorkspaceId,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="workspaces.name")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    body: JsonObject = {"revision": 0} if name is None else {"revision": 0, "name": name}
    return _saved(ctx.obj, workspace, body, "workspaces.added", url, token)


@app.command("rename", cls=Command, help="workspaces.rename")
def rename(
    ctx: typer.Context,
    workspace: WorkspaceId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="workspaces.name")],
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    return _saved(ctx.obj, workspace, {"name": name}, "workspaces.renamed", url, token)


@app.command("delete", cls=Command, help="workspaces.delete")
def delete(ctx: typer.Context, workspace: WorkspaceId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    answer = asyncio.run(WORKSPACES.delete(find_host(url, token, os.environ), workspace))
    return shell.tell(answer, shell.text("workspaces.deleted", workspace=workspace))


def _saved(shell: Shell, workspace: str, body: "JsonObject", key: str, url: str | None, token: str | None) -> int:
    import asyncio

    path = f"{WORKSPACES.path}/{quote(workspace, safe='')}"
    saved = asyncio.run(find_host(url, token, os.environ).put(path, body))
    return shell.tell(saved, shell.text(key, workspace=workspace))


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    items = listed(shell, WORKSPACES, url, token)
    if not items:
        return 0
    from bollard.cli.tables import plain_table

    table = plain_table(shell.text("workspaces.column.workspace"), shell.text("workspaces.column.name"))
    for item in items:
        table.add_row(item["workspace_id"], printable(item.get("name", "")))
    shell.console().print(table)
    return 0

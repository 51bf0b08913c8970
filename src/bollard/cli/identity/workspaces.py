"""`bollard workspaces …`: workspaces, which isolate teams from each other."""

from typing import Annotated, Any, Final

import typer

from bollard.cli.client.documents import Resource
from bollard.cli.command import CommandGroup
from bollard.cli.options import given_values
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column

WORKSPACES: Final = Resource(path="/api/v1/workspaces", key="workspace_id")
WorkspaceId = Annotated[str, typer.Argument(metavar="WORKSPACE", help="workspaces.id")]

app = CommandGroup("workspaces")
app.add_list(WORKSPACES, (Column("workspace", "workspace_id"), Column("name", "name")))


@app.command("add")
def add(
    shell: HostShell,
    workspace: WorkspaceId,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="workspaces.name")] = None,
) -> int:
    return _save(shell, workspace, given_values({"revision": 0, "name": name}), "workspaces.added")


@app.command("rename")
def rename(
    shell: HostShell,
    workspace: WorkspaceId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="workspaces.name")],
) -> int:
    return _save(shell, workspace, {"name": name}, "workspaces.renamed")


app.add_delete(WORKSPACES, ("workspace", WorkspaceId))


def _save(shell: HostShell, workspace: str, body: dict[str, Any], key: str) -> int:
    return shell.tell(shell.put(WORKSPACES.one(workspace), body), shell.text(key, workspace=workspace))

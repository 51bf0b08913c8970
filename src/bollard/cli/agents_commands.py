"""`bollard agents …`: lists, shows, saves and deletes the agents of a host, and begins a new one."""

import os
from typing import Annotated

import typer

from bollard.cli.app import Command, Group
from bollard.cli.columns import printable
from bollard.cli.documents import AGENTS, RUNNERS, DocumentFile
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.listing import listed
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(cls=Group, help="agents", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

AgentId = Annotated[str, typer.Argument(metavar="ID", help="agents.id")]


@app.callback()
def agents(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="agents.list")
def list_agents(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token)


@app.command("show", cls=Command, help="agents.show")
def show(ctx: typer.Context, agent: AgentId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    found = asyncio.run(AGENTS.get(find_host(url, token, os.environ), agent))
    if shell.for_programs:
        return shell.tell(found)
    from bollard.cli.documents_text import agent_lines

    return shell.tell(found, *agent_lines(found, shell.text))


@app.command("save", cls=Command, help="agents.save")
def save(ctx: typer.Context, file: DocumentFile, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    saved = asyncio.run(AGENTS.save(find_host(url, token, os.environ), file))
    return shell.tell(saved, shell.text("agents.saved", agent=saved["agent_id"], revision=saved["revision"]))


@app.command("delete", cls=Command, help="agents.delete")
def delete(ctx: typer.Context, agent: AgentId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    answer = asyncio.run(AGENTS.delete(find_host(url, token, os.environ), agent))
    return shell.tell(answer, shell.text("agents.deleted", agent=agent))


@app.command("new", cls=Command, help="agents.new")
def new(
    ctx: typer.Context,
    agent: AgentId,
    runner: Annotated[str, typer.Option("--runner", metavar="RUNNER", help="agents.new.runner")],
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli.new_agent import new_agent, runner_meant

    shell: Shell = ctx.obj
    offered = asyncio.run(RUNNERS.all(find_host(url, token, os.environ)))
    found = runner_meant(offered, runner)
    if found is None:
        known = ", ".join(item["runner_id"] for item in offered)
        raise UsageProblem("error.no_such_runner", "hint.no_such_runner", runner=runner, known=known)
    shell.print_json(new_agent(agent, found))  # a document to be edited, also on a terminal
    return 0


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    items = listed(shell, AGENTS, url, token, none="agents.none")
    if not items:
        return 0
    text = shell.text
    from bollard.cli.tables import plain_table

    table = plain_table(text("agents.column.agent"), text("agents.column.label"), text("agents.column.runner"))
    table.add_column(text("agents.column.deadline"), justify="right")
    for item in items:
        label = item["label"].get(text.language) or item["label"].get("en_US", "")
        label = label if item["available"] else text("agents.absent", label=label)
        cells = (item["agent_id"], label, item["runner_id"], f"{item['deadline_s']:g}")
        table.add_row(*(printable(cell) for cell in cells))
    shell.console().print(table)
    return 0

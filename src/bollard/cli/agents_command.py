"""`bollard agents`: lists the agents of a host."""

import os
from typing import Any, cast

import typer

from bollard.cli.app import Command
from bollard.cli.columns import printable
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("agents", cls=Command, help="agents")
def agents(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    answer = asyncio.run(find_host(url, token, os.environ).get("/api/v1/agents"))
    if shell.for_programs:
        shell.print_json(answer)
        return 0
    text = shell.text
    items = cast("list[dict[str, Any]]", answer["items"])
    if not items:
        shell.print(text("agents.none"))
        return 0
    from bollard.cli.tables import plain_table

    table = plain_table(text("agents.column.agent"), text("agents.column.label"), text("agents.column.runner"))
    table.add_column(text("agents.column.deadline"), justify="right")
    for item in items:
        label = item["label"].get(text.language) or item["label"].get("en_US", "")
        cells = (item["agent_id"], label, item["runner_id"], f"{item['deadline_s']:g}")
        table.add_row(*(printable(cell) for cell in cells))
    shell.console().print(table)
    return 0

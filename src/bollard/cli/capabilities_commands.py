"""`bollard capabilities …`: what a workspace offers to its agents, and why an agent can or cannot use it."""

import os
from typing import Annotated, Any, cast

import typer

from bollard.cli.app import Command, Group
from bollard.cli.documents import CAPABILITIES
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.listing import listed
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(
    cls=Group, help="capabilities", rich_markup_mode=None, add_completion=False, invoke_without_command=True
)


@app.callback()
def capabilities(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="capabilities.list")
def list_capabilities(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token)


@app.command("explain", cls=Command, help="capabilities.explain")
def explain(
    ctx: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="capabilities.agent")],
    capability: Annotated[str | None, typer.Argument(metavar="CAPABILITY", help="capabilities.capability")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio
    from urllib.parse import quote, urlencode

    shell: Shell = ctx.obj
    asked = {"capability": capability, "locale": shell.text.language}
    query = urlencode({name: value for name, value in asked.items() if value is not None})
    path = f"/api/v1/agents/{quote(agent, safe='')}/capabilities?{query}"
    answer = asyncio.run(find_host(url, token, os.environ).get(path))
    if shell.for_programs:
        shell.print_json(answer)
        return 0
    from bollard.cli.capabilities_text import explained, explained_table

    items = cast("list[dict[str, Any]]", answer["items"])
    if not items:
        shell.print(shell.text("capabilities.none_asked", agent=agent))
    elif capability is None:
        shell.console().print(explained_table(items, shell.text))
        shell.print(shell.text("capabilities.graph", digest=answer["graph_sha256"]))
    else:
        for line in explained(items[0], shell.text):
            shell.print(line)
    return 0


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    items = listed(shell, CAPABILITIES, url, token, none="capabilities.none")
    if not items:
        return 0
    from bollard.cli.capabilities_text import offered_table

    shell.console().print(offered_table(items, shell.text))
    return 0

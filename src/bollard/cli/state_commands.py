"""`bollard state purge`: delete what somebody wrote into state."""

from typing import Annotated, Any, cast

import typer

from bollard.cli.actors import actor_of
from bollard.cli.app import Command, Group
from bollard.cli.columns import printable
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import TokenOption, UrlOption, at_host
from bollard.cli.shell import Shell
from bollard.protocol import JsonObject

__all__ = ["app"]

app = typer.Typer(cls=Group, help="state", no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@app.callback()
def state() -> None:
    """A group though it has one command."""


@app.command("purge", cls=Command, help="state.purge")
def purge(
    ctx: typer.Context,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="state.run")] = None,
    actor: Annotated[str | None, typer.Option("--actor", metavar="TYPE:ID", help="state.actor")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="state.agent")] = None,
    source: Annotated[str | None, typer.Option("--source", metavar="SOURCE", help="state.source")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="state.dry_run")] = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    named = {"run_id": run, "agent_id": agent, "source": source, "actor": None if actor is None else actor_of(actor)}
    body = {name: value for name, value in named.items() if value is not None}
    if not body:
        raise UsageProblem("error.purge", "hint.purge")
    shell, client = at_host(ctx, url, token)
    asked = cast("JsonObject", {**body, "dry_run": dry_run})
    told = cast("dict[str, Any]", asyncio.run(client.post("/api/v1/state/purge", asked)))
    return shell.tell(told, *_lines(shell, told))


def _lines(shell: Shell, told: dict[str, Any]) -> list[str]:
    """What a dry run would delete, or how much was; and what nobody could judge."""
    lines: list[str] = []
    if told["dry_run"]:
        items = told["items"]
        lines += [f"{item['scope']}  {printable(item['key'])}  {item['run_id']}" for item in items]
        if told["matched"] > len(items):
            lines.append(shell.text("state.more", more=told["matched"] - len(items)))
        lines.append(shell.text("state.found", matched=told["matched"]))
    else:
        lines.append(shell.text("state.purged", deleted=told["deleted"]))
        if told["kept"]:
            lines.append(shell.text("state.kept", kept=told["kept"]))
    if told["unknown"]:
        lines.append(shell.text("state.unknown", unknown=told["unknown"]))
    return lines

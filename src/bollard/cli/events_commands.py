"""`bollard events post`: tells a host what happened."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from bollard.cli.actors import actor_of
from bollard.cli.app import Command, Group
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["app"]

app = typer.Typer(cls=Group, help="events", no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@app.callback()
def events() -> None:
    """One command is a group all the same: more will come."""


@app.command("post", cls=Command, help="events.post")
def post(
    ctx: typer.Context,
    kind: Annotated[str, typer.Option("--type", metavar="TYPE", help="events.type")],
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="events.agent")] = None,
    source: Annotated[str, typer.Option("--source", metavar="NAME", help="events.source")] = "cli",
    event_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="events.id")] = None,
    said: Annotated[str | None, typer.Option("--message", metavar="TEXT", help="events.text")] = None,
    data: Annotated[str, typer.Option("--data", metavar="JSON|@FILE", help="events.data")] = "{}",
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="events.conversation")
    ] = None,
    actor: Annotated[str | None, typer.Option("--actor", metavar="TYPE:ID", help="events.actor")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio
    import secrets

    from bollard.cli.json_option import read_json_object

    shell: Shell = ctx.obj
    named = {"agent": agent, "text": said, "conversation": conversation}
    body: JsonObject = {
        "source": source,
        "id": event_id or secrets.token_hex(16),
        "type": kind,
        "data": read_json_object("--data", data),
    }
    if actor is not None:
        body["actor"] = {**actor_of(actor)}
    body |= {name: value for name, value in named.items() if value is not None}
    answer = asyncio.run(find_host(url, token, os.environ).post("/api/v1/events", body))
    if shell.for_programs:
        shell.print_json(answer)
    else:
        key = "events.accepted" if answer["first"] else "events.known"
        key = "events.steered" if "steering" in answer and answer["first"] else key
        # An event that was known may wait for its run still; then its own id is all there is to name.
        shell.print(shell.text(key, event=answer["event_id"], run=answer["run_id"] or answer["event_id"]))
    return 0

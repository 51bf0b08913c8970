"""`bollard events …`: tells a host what happened, and shows what became of it."""

import os
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bollard.cli.actors import actor_of
from bollard.cli.app import Command, Group
from bollard.cli.columns import printable
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["app"]

app = typer.Typer(cls=Group, help="events", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

_PAGE = 20


@app.callback()
def events(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, _PAGE, url, token) if ctx.invoked_subcommand is None else 0


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
        return 0
    reason = cast("dict[str, Any] | None", answer.get("reason"))
    if reason is not None:
        said = shell.text.of_host(reason["message"], reason["code"])
        hint = shell.text.advice_of_host(reason["hint"], reason["code"])
        shell.print(shell.text("events.kept", event=answer["event_id"], reason=printable(said)))
        shell.print(shell.text("hint", hint=printable(hint)))
        return 0
    key = "events.accepted" if answer["first"] else "events.known"
    key = "events.steered" if "steering" in answer and answer["first"] else key
    # An event that was known may wait for its run still; then its own id is all there is to name.
    shell.print(shell.text(key, event=answer["event_id"], run=answer["run_id"] or answer["event_id"]))
    return 0


@app.command("show", cls=Command, help="events.show")
def show(
    ctx: typer.Context,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="events.event")],
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio
    from urllib.parse import quote

    shell: Shell = ctx.obj
    found = asyncio.run(find_host(url, token, os.environ).get(f"/api/v1/events/{quote(event, safe='')}"))
    if shell.for_programs:
        return shell.tell(found)
    from bollard.cli.events_text import event_lines

    return shell.tell(found, *event_lines(found, shell.text))


@app.command("list", cls=Command, help="events.list")
def list_events(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="events.limit")] = _PAGE,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    return _list(ctx.obj, limit, url, token)


def _list(shell: Shell, limit: int, url: str | None, token: str | None) -> int:
    import asyncio

    page = asyncio.run(find_host(url, token, os.environ).get(f"/api/v1/events?limit={limit}"))
    if shell.for_programs:
        shell.print_json(page)
        return 0
    from bollard.cli.events_text import event_line

    items = cast("list[dict[str, Any]]", page["items"])
    if not items:
        shell.print(shell.text("events.empty"))
    for item in items:
        shell.print(event_line(item, shell.text))
    return 0

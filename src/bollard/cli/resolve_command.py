"""`bollard resolve`: what would become of an event, and why. Nothing happens."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bollard.cli.actors import actor_of
from bollard.cli.app import Command
from bollard.cli.columns import printable
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.language import Text
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("resolve", cls=Command, help="resolve")
def resolve(
    ctx: typer.Context,
    kind: Annotated[str, typer.Option("--type", metavar="TYPE", help="resolve.type")] = "message.received",
    source: Annotated[str | None, typer.Option("--source", metavar="NAME", help="resolve.source")] = None,
    trigger: Annotated[str | None, typer.Option("--trigger", metavar="NAME", help="resolve.trigger")] = None,
    bot: Annotated[str | None, typer.Option("--bot", metavar="ID", help="resolve.bot")] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="resolve.conversation")
    ] = None,
    thread: Annotated[str | None, typer.Option("--thread", metavar="ID", help="resolve.thread")] = None,
    actor: Annotated[str | None, typer.Option("--actor", metavar="TYPE:ID", help="resolve.actor")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="resolve.agent")] = None,
    data: Annotated[str, typer.Option("--data", metavar="JSON|@FILE", help="resolve.data")] = "{}",
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli.json_option import read_json_object

    shell: Shell = ctx.obj
    named = {"source": source, "trigger": trigger, "bot": bot, "agent": agent}
    named |= {"conversation": conversation, "thread": thread}
    body: JsonObject = {"type": kind, "locale": shell.text.language, "data": read_json_object("--data", data)}
    body |= {name: value for name, value in named.items() if value is not None}
    if actor is not None:
        body["actor"] = {**actor_of(actor)}
    answer = asyncio.run(find_host(url, token, os.environ).post("/api/v1/bindings/resolve", body))
    if shell.for_programs:
        shell.print_json(answer)
        return 0
    for line in _told(cast("dict[str, Any]", answer), shell.text):
        shell.print(printable(line))
    return 0


def _told(answer: dict[str, Any], text: Text) -> Iterator[str]:
    """Binding by binding, then what is decided, then what would stand in the way."""
    for step in answer["steps"]:
        yield step["text"]
    decision: dict[str, Any] | None = answer["decision"]
    if decision is None:
        yield text("resolve.nobody")
        return
    runs = ", ".join(decision.get("run_ids", ()))
    kind, fields = decision["kind"], {"agent": answer["agent"], "runs": runs}
    if (refused := answer["refused"]) is None:
        yield text(f"resolve.decision.{kind}", **fields, reason=text.of_host(decision.get("message") or ""))
    else:
        yield text("resolve.refused", code=refused["code"], reason=text.of_host(refused["message"]))
        yield text("hint", hint=text.advice_of_host(refused["hint"], refused["code"]))
        if f"resolve.open.{kind}" in text:
            yield text(f"resolve.open.{kind}", **fields)
    if (grant := answer["grant"]) is not None:
        yield text("resolve.granted", names=", ".join(grant["operations"]) or text("rights.none"))

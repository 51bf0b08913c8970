"""`bollard chat`: reads the arguments, then talks."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bollard.cli.app import Command
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.cli.host_client import HostClient

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("chat", cls=Command, help="chat")
def chat(
    ctx: typer.Context,
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="chat.agent")] = None,
    conversation: Annotated[str | None, typer.Option("--conversation", metavar="ID", help="chat.conversation")] = None,
    message: Annotated[list[str] | None, typer.Option("--message", metavar="TEXT", help="chat.message")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    client = find_host(url, token, os.environ)
    return asyncio.run(_talk(ctx.obj, client, agent, conversation, message))


async def _talk(
    shell: Shell, client: "HostClient", agent: str | None, conversation: str | None, messages: list[str] | None
) -> int:
    from bollard.cli.chat import Chat
    from bollard.cli.play import MESSAGE, converse, play_all
    from bollard.cli.prompt import GivenLines, PipedLines, Prompt
    from bollard.cli.records import RecordLines, ShownRecords
    from bollard.cli.rendering import renderer_for

    renderer = renderer_for(shell)
    sink = RecordLines(sys.stdout) if shell.for_programs else ShownRecords(renderer, shell.text)
    session = Chat(client, renderer, sink, shell.text, conversation)
    interactive = messages is None and sys.stdin.isatty() and shell.mode == "terminal"
    label = await session.open(agent)
    where = {"agent": session.agent, "address": client.address, "conversation": session.conversation}
    renderer.greet(label, shell.text("chat.opened", **where), shell.text("run.keys") if interactive else None)
    if interactive:
        return await converse(session, renderer, shell.text, Prompt(shell.text))
    lines = PipedLines(sys.stdin) if messages is None else GivenLines(messages)
    return await play_all(session, renderer, shell.text, lines, MESSAGE)

"""`bollard chat`: reads the arguments, then talks."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bollard.cli.actors import ActorOption, speaker
from bollard.cli.app import Command
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.cli.chat import Chat
    from bollard.cli.host_client import HostClient
    from bollard.cli.render import Renderer

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("chat", cls=Command, help="chat")
def chat(
    ctx: typer.Context,
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="chat.agent")] = None,
    conversation: Annotated[str | None, typer.Option("--conversation", metavar="ID", help="chat.conversation")] = None,
    message: Annotated[list[str] | None, typer.Option("--message", metavar="TEXT", help="chat.message")] = None,
    actor: ActorOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli.rendering import renderer_for

    shell: Shell = ctx.obj
    if any(not said.strip() for said in message or ()):
        raise UsageProblem("error.empty_message", "hint.empty_message")
    client = find_host(url, token, os.environ)
    who = speaker(actor, named=client.is_named)
    renderer = renderer_for(shell)
    return asyncio.run(_talk(shell, renderer, _chat(shell, renderer, client, conversation, who), agent, message))


def _chat(
    shell: Shell, renderer: "Renderer", client: "HostClient", conversation: str | None, who: dict[str, str] | None
) -> "Chat":
    from bollard.cli.chat import Chat
    from bollard.cli.records import RecordLines, ShownRecords

    sink = RecordLines(sys.stdout) if shell.for_programs else ShownRecords(renderer, shell.text)
    return Chat(client, renderer, sink, shell.text, conversation=conversation, actor=None if who is None else {**who})


async def _talk(
    shell: Shell, renderer: "Renderer", session: "Chat", agent: str | None, messages: list[str] | None
) -> int:
    from bollard.cli.play import MESSAGE, converse, play_all
    from bollard.cli.prompt import GivenLines, PipedLines, Prompt

    interactive = messages is None and sys.stdin.isatty() and shell.mode == "terminal"
    label = await session.open(agent)
    where = {"agent": session.agent, "address": session.address, "conversation": session.conversation}
    keys = shell.text("run.keys_steering" if session.steerable else "run.keys") if interactive else None
    renderer.greet(label, shell.text("chat.opened", **where), keys)
    if interactive:
        return await converse(session, renderer, shell.text, Prompt(shell.text))
    lines = PipedLines(sys.stdin) if messages is None else GivenLines(messages)
    return await play_all(session, renderer, shell.text, lines, MESSAGE)

"""`bollard chat`: a conversation with one agent of a host."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from bollard.cli.client.run_stream import sink_for
from bollard.cli.command import single_command
from bollard.cli.errors import UsageProblem
from bollard.cli.options import ActorOption, speaker
from bollard.cli.runs.chat_commands import ChatCommands
from bollard.cli.runs.chat_session import Chat
from bollard.cli.runs.dialogue import Dialogue, screen_for
from bollard.cli.runs.inline_requests import InlineRequests
from bollard.cli.runs.play import play
from bollard.cli.shell import HostShell
from bollard.cli.terminal.page import TerminalPage
from bollard.cli.terminal.screen import Screen
from bollard.cli.terminal.text_renderer import TextRenderer, renderer_for
from bollard.protocol import JsonObject


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """The options of `bollard chat`."""

    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="chat.agent")] = None
    conversation: Annotated[str | None, typer.Option("--conversation", metavar="ID", help="chat.conversation")] = None
    message: Annotated[list[str] | None, typer.Option("--message", metavar="TEXT", help="chat.message")] = None
    file: Annotated[list[Path] | None, typer.Option("--file", metavar="PATH", help="chat.file")] = None
    verbose: Annotated[bool, typer.Option("--verbose", help="chat.verbose")] = False
    actor: ActorOption = None


@single_command("chat")
def chat(shell: HostShell, options: ChatOptions) -> int:
    if any(not line.strip() for line in options.message or ()):
        raise UsageProblem("error.empty_message", "hint.empty_message")
    if shell.mode == "json" and shell.asked is None:  # in a pipe a chat is its answers
        shell = dataclasses.replace(shell, mode="text")
    who = speaker(options.actor, named=shell.client.is_named)
    screen = screen_for(shell) if options.message is None else None
    if screen is not None:
        return shell.run(_converse(shell, options, who, screen))
    return shell.run(_play(shell, options, who))


def _attach(session: Chat, options: ChatOptions) -> None:
    """The files of the options go with the first message."""
    for path in options.file or ():
        session.files.add(path)


async def _converse(shell: HostShell, options: ChatOptions, who: JsonObject | None, screen: Screen) -> int:
    """A person types."""
    text = shell.text
    renderer = TextRenderer(TerminalPage(screen), text, verbose=options.verbose)
    requests = InlineRequests(shell.client, renderer, screen, text)
    sink = sink_for(shell, renderer, requests)
    session = Chat(shell.client, renderer, sink, text, conversation=options.conversation, actor=who, requests=requests)
    _attach(session, options)
    await session.open(options.agent)
    keys = text("chat.keys_steering" if session.steerable else "chat.keys")
    renderer.greet(session.label, session.place, keys if session.reason is None else f"{session.reason}\n{keys}")
    return await Dialogue(session, renderer, text, screen, ChatCommands(session, renderer, screen, text)).run()


async def _play(shell: HostShell, options: ChatOptions, who: JsonObject | None) -> int:
    """Messages come from options or a pipe."""
    renderer = renderer_for(shell, verbose=options.verbose)
    sink = sink_for(shell, renderer)
    session = Chat(shell.client, renderer, sink, shell.text, conversation=options.conversation, actor=who)
    _attach(session, options)
    await session.open(options.agent)
    renderer.greet(session.label, session.place, session.reason)
    return await play(session, renderer, shell, options.message)

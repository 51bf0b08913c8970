"""The commands of a chat, which begin with a slash."""

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlencode

from bollard.cli.client.documents import AGENTS
from bollard.cli.errors import CliError, HostRefusal
from bollard.cli.language import Text
from bollard.cli.runs.chat_files import named_file, pasted_file
from bollard.cli.runs.chat_session import Chat
from bollard.cli.runs.dialogue import Dialogue
from bollard.cli.terminal.columns import printable, shorten_columns
from bollard.cli.terminal.renderers import note_problem
from bollard.cli.terminal.screen import Screen
from bollard.cli.terminal.text_renderer import TextRenderer
from bollard.cli.terminal.tool_calls import detail_lines

COMMANDS: Final = ("new", "agents", "search", "attach", "files", "stop", "details", "help", "quit")
"""In the order in which `/help` lists them. The text of each is `chat.command.NAME`."""
_LINE: Final = re.compile(r"/([^\s/]*)(?:\s+(.*))?", re.DOTALL)
_HITS: Final = 10


def read_command(line: str) -> tuple[str, str] | None:
    """The name and the argument of a command; `None` for a message. A path such as `/etc/hosts`, and a line that begins
    with a space, is a message."""
    found = _LINE.fullmatch(line)
    return None if found is None else (found[1].lower(), (found[2] or "").strip())


class ChatCommands:
    """Runs the commands of one chat."""

    def __init__(self, chat: Chat, renderer: TextRenderer, screen: Screen, text: Text) -> None:
        self._chat = chat
        self._renderer = renderer
        self._screen = screen
        self._text = text
        self._offered: Path | None = None
        """The file whose path was pasted as a message."""
        self._orders: Mapping[str, Callable[[str, Dialogue], Awaitable[None]]] = {
            "new": self._new,
            "agents": self._agents,
            "search": self._search,
            "attach": self._attach,
            "files": self._files,
            "stop": self._stop,
            "details": self._details,
            "help": self._help,
            "quit": self._quit,
        }

    def takes(self, line: str) -> bool:
        """Commands, and the path of a file for the first time: the person may mean the file."""
        if read_command(line) is not None:
            return True
        path = pasted_file(line)
        return path is not None and path != self._offered

    async def run(self, line: str, dialogue: Dialogue) -> None:
        name, argument = read_command(line) or ("", "")
        if not name and (path := pasted_file(line)) is not None:
            self._offered = path
            self._renderer.note(self._text("chat.file_offer", name=printable(path.name)))
            return
        order = self._orders.get({"exit": "quit", "?": "help"}.get(name, name))
        if order is None:
            self._renderer.note(self._text("chat.unknown_command", name=printable(name)))
            return
        try:
            await order(argument, dialogue)
        except CliError as error:
            note_problem(self._renderer, error, self._text)

    async def _new(self, argument: str, dialogue: Dialogue) -> None:
        if self._is_busy(dialogue):
            return
        if argument:
            await self._chat.open(argument)
        self._chat.begin()
        self._greet()

    async def _agents(self, argument: str, dialogue: Dialogue) -> None:
        if argument:
            if not self._is_busy(dialogue):
                await self._chat.open(argument)
                self._greet()
            return
        for agent in await AGENTS.all(self._chat.client):
            if agent.get("available", True):
                label: Mapping[str, str] = agent.get("label") or {}
                fields = {"agent": agent["agent_id"], "label": label.get(self._text.language) or label.get("en_US", "")}
                here = agent["agent_id"] == self._chat.agent
                line = self._text("chat.agent_here" if here else "chat.agent_listed", **fields)
                self._screen.write(f"  {printable(line)}")
        self._renderer.note(self._text("chat.agent_switch"))

    async def _search(self, argument: str, dialogue: Dialogue) -> None:
        del dialogue
        if not argument:
            self._renderer.note(self._text("chat.search_what"))
            return
        page = await self._chat.client.get(f"/api/v1/conversations/search?{urlencode({'q': argument, 'limit': _HITS})}")
        items = cast("list[dict[str, Any]]", page["items"])
        for item in items:
            line = f"{item['conversation_id']}: {item.get('snippet') or ''}"
            self._screen.write(f"  {shorten_columns(line, self._screen.columns - 2)}")
        found = self._text("chat.search_open") if items else self._text("chat.search_none", words=printable(argument))
        self._renderer.note(found)

    async def _attach(self, argument: str, dialogue: Dialogue) -> None:
        del dialogue
        path = named_file(argument) if argument else self._offered
        if path is None:
            self._renderer.note(self._text("chat.attach_what"))
            return
        size = self._chat.files.add(path)
        self._offered = None
        self._renderer.note(self._text("chat.attached_file", name=printable(path.name), size=size))

    async def _files(self, argument: str, dialogue: Dialogue) -> None:
        del argument, dialogue
        pending = self._chat.files.pending
        lines = [self._text("chat.file_pending", name=printable(path.name)) for path in pending]
        try:
            for role, ref in await self._chat.files.listed(self._chat.conversation):
                fields = {name: printable(str(ref.get(name) or "")) for name in ("name", "artifact_id", "size_bytes")}
                lines.append(self._text("chat.file_listed", role=printable(role), **fields))
        except HostRefusal as refusal:
            if refusal.code != "not_found":  # a conversation without a message does not exist yet
                raise
        for line in lines or [self._text("chat.no_files")]:
            self._screen.write(f"  {line}")

    async def _stop(self, argument: str, dialogue: Dialogue) -> None:
        del argument
        if not dialogue.stop():
            self._renderer.note(self._text("chat.nothing_runs"))

    async def _details(self, argument: str, dialogue: Dialogue) -> None:
        del argument, dialogue
        lines = list(detail_lines(self._renderer.calls, self._text))
        for line in lines or [self._text("chat.no_calls")]:
            self._screen.write(f"  {line}")

    async def _help(self, argument: str, dialogue: Dialogue) -> None:
        del argument, dialogue
        for name in COMMANDS:
            self._screen.write(f"  {self._text(f'chat.command.{name}')}")
        self._renderer.note(self._text("chat.editing"))

    async def _quit(self, argument: str, dialogue: Dialogue) -> None:
        del argument
        dialogue.end()

    def _is_busy(self, dialogue: Dialogue) -> bool:
        if dialogue.is_running:
            self._renderer.note(self._text("chat.busy"))
        return dialogue.is_running

    def _greet(self) -> None:
        self._renderer.greet(self._chat.label, self._chat.place, None)

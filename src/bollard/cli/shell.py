"""The shell of a command: its language, its output, and the client of a host."""

import json
import signal
import sys
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast
from urllib.parse import urlencode

from bollard.cli.errors import UsageProblem
from bollard.cli.language import LANGUAGES, Text, choose_language, load_text

if TYPE_CHECKING:  # only a command that draws needs rich, and only a command of a host needs the client
    from rich.console import Console

    from bollard.cli.client.documents import Resource
    from bollard.cli.client.host_client import HostClient
    from bollard.cli.terminal.columns import Column

Answer = TypeVar("Answer")
_YES: Final = ("y", "yes", "是", "好")

OutputMode = Literal["terminal", "text", "json"]
"""Colours and live lines on a terminal; the same without them; or JSON for programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """The language and the output of a command."""

    text: Text
    mode: OutputMode
    asked: OutputMode | None = None
    """The mode that `--json` or `--text` asks for."""

    @property
    def for_programs(self) -> bool:
        """Whether stdout carries JSON."""
        return self.mode == "json"

    @property
    def has_person(self) -> bool:
        """Whether a person reads stdout and can answer."""
        return self.mode == "terminal" and sys.stdin.isatty()

    def confirm(self, question: str) -> bool:
        """Ask a yes-or-no question; returns whether the person confirms."""
        sys.stdout.write(self.text(question))
        sys.stdout.flush()
        # Ctrl-C ends the command even while an event loop runs, which would only record it.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return sys.stdin.readline().strip().lower() in _YES
        finally:
            signal.signal(signal.SIGINT, before)

    def console(self, *, stderr: bool = False) -> "Console":
        """A console, which knows the width and whether colours are wanted."""
        from rich.console import Console

        return Console(stderr=stderr, highlight=False, soft_wrap=False, emoji=False, markup=False)

    def print_json(self, value: object) -> None:
        """One JSON document on stdout."""
        sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
        sys.stdout.flush()

    def print(self, line: str) -> None:
        """One plain line on stdout."""
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def show(self, value: object, lines: Iterable[str]) -> int:
        """Print the value for programs or the lines for people. Returns the exit code of a success."""
        if self.for_programs:
            self.print_json(value)
        else:
            for line in lines:
                self.print(line)
        return 0

    def tell(self, value: object, *sentences: str) -> int:
        """Like `show`, for a few sentences."""
        return self.show(value, sentences)

    def show_items(
        self, found: dict[str, Any], noun: str, columns: "Sequence[Column]", *, none: str | None = None
    ) -> int:
        """Print a page for programs, or a table of its items for people. The headings are `NOUN.column.NAME`; `none` is
        the key of the text for an empty list."""
        if self.for_programs:
            self.print_json(found)
        elif found["items"]:
            self.print_table(noun, columns, found["items"])
        elif none is not None:
            self.print(self.text(none))
        return 0

    def print_table(self, noun: str, columns: "Sequence[Column]", items: Iterable[dict[str, Any]]) -> None:
        """A table without lines on stdout."""
        from bollard.cli.terminal.columns import table_of

        self.console().print(table_of(noun, columns, items, self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostShell(Shell):
    """A shell with the client of the host that `--url` and `--token` name."""

    client: "HostClient"

    def run(self, request: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a request of the client. Raises `HostProblem`."""
        import asyncio  # slower to import than a help page

        return asyncio.run(request)

    # Each request raises `HostProblem`.

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """Fields of the query that are `None` are left out."""
        asked = urlencode({name: value for name, value in query.items() if value is not None})
        return self._call("GET", f"{path}?{asked}" if asked else path)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self._call("POST", path, body or {})

    def put(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._call("PUT", path, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._call("PATCH", path, body)

    def delete(self, path: str) -> dict[str, Any]:
        return self._call("DELETE", path)

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self.run(self.client.call(method, path, None if body is None else dict(body)))

    def all(self, resource: "Resource") -> list[dict[str, Any]]:
        """Every page of a resource."""
        return self.run(resource.all(self.client))


def read_invocation(
    arguments: Sequence[str], environment: Mapping[str, str], *, stdout_is_terminal: bool
) -> tuple[list[str], Shell]:
    """Take the global options out of the arguments, wherever they occur before `--`. People write them at the end
    (`bollard plugin check hello --json`), where the parser would need a declaration per command."""
    rest: list[str] = []
    language: str | None = None
    asked: OutputMode | None = None
    waiting = iter(arguments)
    for argument in waiting:
        if argument == "--":
            rest += [argument, *waiting]
        elif argument == "--lang":
            language = next(waiting, "")
        elif argument.startswith("--lang="):
            language = argument.removeprefix("--lang=")
        elif argument in ("--json", "--text"):
            asked = cast("OutputMode", argument.removeprefix("--"))
        else:
            rest.append(argument)
    if language is not None and language not in LANGUAGES:
        raise UsageProblem("error.language", "hint.language", language=language, known=", ".join(LANGUAGES))
    text = load_text(language or choose_language(environment))
    return rest, Shell(text=text, mode=_mode(asked, stdout_is_terminal), asked=asked)


def _mode(asked: OutputMode | None, stdout_is_terminal: bool) -> OutputMode:
    if asked == "json":
        return "json"
    if stdout_is_terminal:
        return "terminal"
    return asked or "json"

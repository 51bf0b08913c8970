"""What every command is told about where it runs: the language, and the shape its output takes. Reads no plugin."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from bollard.cli.errors import UsageProblem
from bollard.cli.language import LANGUAGES, Text, choose_language, load_text

if TYPE_CHECKING:  # rich is only needed by a command that draws
    from rich.console import Console

__all__ = ["OutputMode", "Shell", "read_invocation"]

OutputMode = Literal["terminal", "text", "json"]
"""Colours and live lines on a terminal; the same without them; or JSON for programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """Where a command runs."""

    text: Text
    mode: OutputMode

    @property
    def for_programs(self) -> bool:
        """Whether stdout carries JSON."""
        return self.mode == "json"

    def console(self, *, stderr: bool = False) -> "Console":
        """Something to draw on; it knows the width and whether colours are wanted."""
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

    def tell(self, value: object, *lines: str) -> int:
        """What a command has to say at its end: the value for programs, the lines for people. The code of a success."""
        if self.for_programs:
            self.print_json(value)
        else:
            for line in lines:
                self.print(line)
        return 0


def read_invocation(
    arguments: Sequence[str], environment: Mapping[str, str], *, stdout_is_terminal: bool
) -> tuple[list[str], Shell]:
    """Take the global options out of the arguments, wherever they stand before `--`.

    People write them at the end (`bollard plugin check hello --json`), where the parser would want one declaration
    for each command.
    """
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
    return rest, Shell(text=text, mode=_mode(asked, stdout_is_terminal))


def _mode(asked: OutputMode | None, stdout_is_terminal: bool) -> OutputMode:
    if asked == "json":
        return "json"
    if stdout_is_terminal:
        return "terminal"
    return asked or "json"

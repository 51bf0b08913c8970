"""Sources of messages: the lines of a pipe, or a list. Also prompts for passwords."""

import getpass
import signal
import sys
from collections.abc import Iterable
from typing import Annotated, TextIO

import typer

from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text


class ScriptedLines:
    """The given lines, in order."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)

    async def __call__(self) -> str | None:
        line = next(self._lines, None)
        # An argument that was no UTF-8 has lone surrogates, which no frame can carry.
        return None if line is None else line.encode("utf-8", "replace").decode()


class PipedLines:
    """The non-empty lines of a file or pipe. Blocks the loop: nothing runs meanwhile."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    async def __call__(self) -> str | None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        while line := self._file.readline():
            if line.strip():
                return line.strip()
        return None


# Passwords as a person types them: on the terminal without echo, or as the first line of a pipe. Never as an option,
# where the shell's history and the list of processes would have them.


PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="option.password_stdin")]


def ask_password(text: Text, *, from_stdin: bool, key: str = "password.ask") -> str:
    """Ask for a password. Raises `UsageProblem` without a terminal."""
    if from_stdin:
        line = sys.stdin.readline().rstrip("\n").rstrip("\r")
        if not line:
            raise UsageProblem("error.password_stdin", "hint.password_stdin")
        return line
    if not sys.stdin.isatty():
        raise UsageProblem("error.password_terminal", "hint.password_terminal")
    return getpass.getpass(f"{text(key)}: ")


def ask_new_password(text: Text, *, from_stdin: bool) -> str:
    """Ask for a new password, twice on a terminal."""
    first = ask_password(text, from_stdin=from_stdin, key="password.new")
    if not from_stdin and getpass.getpass(f"{text('password.again')}: ") != first:
        raise UsageProblem("error.password_differs", "hint.password_differs")
    return first

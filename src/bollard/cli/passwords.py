"""Passwords as a person types them: on the terminal without echo, or as the first line of a pipe. Never as an option,
where the shell's history and the list of processes would have them."""

import getpass
import sys
from typing import Annotated

import typer

from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text

__all__ = ["PasswordStdin", "ask_new_password", "ask_password"]

PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="option.password_stdin")]


def ask_password(text: Text, *, from_stdin: bool, key: str = "password.ask") -> str:
    """One password; raises `UsageProblem` where nobody can be asked."""
    if from_stdin:
        line = sys.stdin.readline().rstrip("\n").rstrip("\r")
        if not line:
            raise UsageProblem("error.password_stdin", "hint.password_stdin")
        return line
    if not sys.stdin.isatty():
        raise UsageProblem("error.password_terminal", "hint.password_terminal")
    return getpass.getpass(f"{text(key)}: ")


def ask_new_password(text: Text, *, from_stdin: bool) -> str:
    """A new one: typed twice on a terminal."""
    first = ask_password(text, from_stdin=from_stdin, key="password.new")
    if not from_stdin and getpass.getpass(f"{text('password.again')}: ") != first:
        raise UsageProblem("error.password_differs", "hint.password_differs")
    return first

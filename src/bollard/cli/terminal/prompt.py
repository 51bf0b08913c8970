"""Sources of messages: a prompt with a line editor, the lines of a pipe, or a list. Also prompts for passwords."""

import asyncio
import contextlib
import getpass
import importlib
import signal
import sys
import termios
import threading
from collections.abc import Iterable
from typing import Annotated, Any, Final, TextIO

import typer

from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text

_MARK: Final = "› "


class PromptInterrupted(Exception):
    """The person pressed Ctrl-C twice at the prompt."""


def _line_editor() -> Any:
    """Arrow keys and a history, if readline is available."""
    with contextlib.suppress(ImportError):
        readline = importlib.import_module("readline")
        readline.parse_and_bind("set enable-bracketed-paste off")  # a mode that would outlive an interrupted prompt
        return readline
    return None


class Prompt:
    """Asks a person. Ctrl-D leaves; so does a second Ctrl-C.

    The line is read in a thread, because the line editor sleeps in C: there it would miss a Ctrl-C, and the loop would
    stand still.
    """

    def __init__(self, text: Text) -> None:
        self._text = text
        self._editor = _line_editor()
        self._mode = termios.tcgetattr(sys.stdin.fileno())

    async def __call__(self) -> str | None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str | None] = loop.create_future()
        interruptions = 0

        def interrupted() -> None:
            nonlocal interruptions
            interruptions += 1
            if interruptions > 1 and not answer.done():
                answer.set_exception(PromptInterrupted())
                return
            typed = self._editor.get_line_buffer() if self._editor is not None else ""
            sys.stdout.write(f"\n{self._text('run.leave')}\n{_MARK}{typed}")
            sys.stdout.flush()

        def answered(line: str | None) -> None:
            if not answer.done():
                answer.set_result(line)

        loop.add_signal_handler(signal.SIGINT, interrupted)
        threading.Thread(target=self._read, args=(loop, answered), daemon=True).start()
        try:
            return await answer
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            if answer.cancelled() or answer.exception() is not None:  # the thread is still there, in the editor's mode
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._mode)
                sys.stdout.write("\n")

    def _read(self, loop: asyncio.AbstractEventLoop, answered: Any) -> None:
        line: str | None = ""
        mark = f"\n{_MARK}"
        try:
            while not line:
                line = input(mark).strip()
                mark = _MARK
        except EOFError:
            sys.stdout.write("\n")
            line = None
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            loop.call_soon_threadsafe(answered, line)


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

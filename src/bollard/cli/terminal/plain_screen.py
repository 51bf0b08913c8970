"""The screen of a terminal that cannot move its cursor: lines in, lines out.

During a run the terminal does not echo, so that typed characters and the answer never share a line; a line is shown
when it is complete.
"""

import asyncio
import os
import shutil
import signal
import sys
import termios
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from bollard.cli.terminal.screen import MARK, Listener, typed_lines
from bollard.cli.terminal.styles import Styles

_READ_BYTES: Final = 4096
_LOCAL: Final = 3
"""The index of the local modes in the attributes of a terminal."""


class PlainScreen:
    """Reads whole lines from stdin and prints whole lines."""

    def __init__(self) -> None:
        self.styles = Styles(attributes=False, colours=False)
        self._listener: Listener | None = None
        self._stdin = sys.stdin.fileno()
        self._mode: list[Any] = termios.tcgetattr(self._stdin)
        self._rest = b""
        self._begun: list[str] = []
        """Lines of a message that goes on after a backslash."""
        self._running = False
        self._signed = False
        self._question: tuple[str, Sequence[str], asyncio.Future[str]] | None = None
        self._at_mark = False
        """Whether the cursor stands behind the mark."""

    # --- the surface ---

    @property
    def columns(self) -> int:
        return shutil.get_terminal_size().columns

    def write(self, line: str) -> None:
        sys.stdout.write(("\n" if self._at_mark else "") + f"{line}\n")
        sys.stdout.flush()
        self._at_mark = False
        if self._question is not None:
            self._prompt(f"{self._question[0]} ")
        elif not self._running and self._listener is not None:
            asyncio.get_running_loop().call_soon(self._mark)  # after the lines that belong together

    def _mark(self) -> None:
        if not self._running and not self._at_mark and self._question is None and self._listener is not None:
            self._prompt(f"\n{MARK}")

    def live(self, line: str) -> None:
        """An unfinished line is not shown."""

    def wait(self, sentence: str | None) -> None:
        if sentence is not None and not self._signed:
            self.write(f"… {sentence}")
        self._signed = sentence is not None or self._running

    # --- the person ---

    @asynccontextmanager
    async def opened(self, listener: Listener) -> AsyncGenerator[None]:
        self._listener = listener
        loop = asyncio.get_running_loop()
        loop.add_reader(self._stdin, self._readable)
        loop.add_signal_handler(signal.SIGINT, listener.interrupt)
        try:
            yield
        finally:
            self._listener = None
            loop.remove_reader(self._stdin)
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            termios.tcsetattr(self._stdin, termios.TCSADRAIN, self._mode)
            if self._at_mark:
                self.write("")

    def clear_draft(self) -> bool:
        """The terminal drops its line at Ctrl-C by itself; only the lines before it are ours."""
        begun, self._begun = self._begun, []
        return bool(begun)

    def busy(self, running: bool) -> None:
        self._running, self._signed = running, False
        mode = list(self._mode)
        if running:
            mode[_LOCAL] &= ~termios.ECHO
        termios.tcsetattr(self._stdin, termios.TCSADRAIN, mode)
        self._mark()

    async def pause(self) -> None:
        """An answer is a whole line here, so no key of a message is taken for one."""

    async def ask_key(self, question: str, keys: Sequence[str]) -> str:
        """Where no single key can be read, the answer is a line with the key alone."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._question = (question, keys, answer)
        self._prompt(f"{question} ")
        try:
            key = await answer
        finally:
            self._question = None
        if self._at_mark:  # the terminal does not echo during a run
            sys.stdout.write(f"{key}\n")
            sys.stdout.flush()
            self._at_mark = False
        return key

    def _prompt(self, mark: str) -> None:
        sys.stdout.write(mark)
        sys.stdout.flush()
        self._at_mark = True

    def _readable(self) -> None:
        data = os.read(self._stdin, _READ_BYTES)
        listener = self._listener
        if listener is None:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._stdin)
            listener.end()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line.decode("utf-8", "replace").rstrip(), listener)

    def _take(self, line: str, listener: Listener) -> None:
        if not self._running:
            self._at_mark = False  # the terminal has echoed the line and its end
        if self._question is not None:
            sentence, keys, answer = self._question
            if line.lower() in keys and not answer.done():
                answer.set_result(line.lower())
            else:
                self._at_mark = False
                self._prompt(f"\n{sentence} ")
            return
        if line.endswith("\\"):
            self._begun.append(line[:-1])
            return
        message = "\n".join((*self._begun, line))
        self._begun = []
        if not message.strip():
            if not self._running:
                self._prompt(MARK)
            return
        if self._running:
            for shown in typed_lines(message, self.columns, self.styles):
                self.write(shown)
        listener.line(message)

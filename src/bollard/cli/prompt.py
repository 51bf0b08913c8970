"""Where messages come from: a prompt with a line editor, the lines of a pipe, or a list. Blocks; nothing runs then."""

import contextlib
import importlib
import signal
import sys
from collections.abc import Iterable
from typing import TextIO

from bollard.cli.language import Text

__all__ = ["GivenLines", "PipedLines", "Prompt"]


class Prompt:
    """Asks a person. Ctrl-D leaves; so does Ctrl-C when the line was empty and it is pressed twice."""

    def __init__(self, text: Text) -> None:
        self._text = text
        with contextlib.suppress(ImportError):  # arrow keys and a history of what was typed, where there is readline
            importlib.import_module("readline")

    def __call__(self) -> str | None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupted = False
        while True:
            try:
                line = input("\n› ").strip()
            except EOFError:
                sys.stdout.write("\n")
                return None
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                sys.stdout.write(f"\n{self._text('run.leave')}")
                continue
            if line:
                return line
            interrupted = False


class GivenLines:
    """The lines that were given, one after the other."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)

    def __call__(self) -> str | None:
        line = next(self._lines, None)
        # An argument that was no UTF-8 has lone surrogates, which no frame can carry.
        return None if line is None else line.encode("utf-8", "replace").decode()


class PipedLines:
    """The lines of a file or pipe that say something."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def __call__(self) -> str | None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        while line := self._file.readline():
            if line.strip():
                return line.strip()
        return None

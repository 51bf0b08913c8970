"""Pages: where the answer of a run and the lines beside it go.

A `PipePage` has the answer alone, unchanged, on stdout. A `TerminalPage` wraps it, renders its Markdown, and draws it
on a surface, whose last line may still change.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Final, Protocol, TextIO

from bollard.cli.terminal.columns import printable, shorten_columns, wrap
from bollard.cli.terminal.markdown import MarkdownStream
from bollard.cli.terminal.styles import Styles, is_dumb, styles_for

_MARGIN: Final = 2
"""Columns that a line beside the answer is set in."""
_REWRITE: Final = "\r\x1b[K"


class Page(Protocol):
    """Takes the answer in pieces, and lines beside it."""

    def title(self, label: str, sentence: str) -> None: ...

    def say(self, words: str, *, thought: bool = False) -> None:
        """A piece of the answer, or of the reasoning before it."""
        ...

    def end(self) -> None:
        """End the current line of the answer."""
        ...

    def aside(self, sentence: str, style: str) -> None:
        """A line of its own between two parts of the answer. It ends the current line."""
        ...

    def line(self, sentence: str, style: str) -> None:
        """The same as `aside`, in one line of the terminal: the rest is cut."""
        ...

    def remark(self, sentence: str, style: str) -> None:
        """A line of its own that leaves the current line of the answer as it is."""
        ...

    def wait(self, sentence: str | None) -> None:
        """Show what the run is doing until its next words; `None` shows nothing."""
        ...


class Surface(Protocol):
    """Lines of a terminal. The last one may be unfinished."""

    @property
    def styles(self) -> Styles: ...

    @property
    def columns(self) -> int: ...

    def write(self, line: str) -> None:
        """A complete line, above the unfinished one."""
        ...

    def live(self, line: str) -> None:
        """Replace the unfinished line."""
        ...

    def wait(self, sentence: str | None) -> None:
        """A sign that the run works, where no line is unfinished."""
        ...


class PipePage:
    """The answer on stdout and the rest on stderr, as plain text."""

    def __init__(self, out: TextIO, side: TextIO) -> None:
        self._out = out
        self._side = side
        self._open = False

    def title(self, label: str, sentence: str) -> None:
        self._side.write(f"{printable(label)} {sentence}\n")

    def say(self, words: str, *, thought: bool = False) -> None:
        if thought or not words:
            return
        self._out.write(printable(words))
        self._out.flush()
        self._open = not words.endswith("\n")

    def end(self) -> None:
        if self._open:
            self._out.write("\n")
            self._out.flush()
            self._open = False

    def aside(self, sentence: str, style: str) -> None:
        self.end()
        self.remark(sentence, style)

    def line(self, sentence: str, style: str) -> None:
        self.aside(sentence, style)

    def remark(self, sentence: str, style: str) -> None:
        del style
        self._side.write("".join(f"{' ' * _MARGIN}{printable(line)}\n" for line in sentence.split("\n")))
        self._side.flush()

    def wait(self, sentence: str | None) -> None:
        """A pipe has no sign of waiting."""


class TerminalPage:
    """The answer with its Markdown rendered, and dim lines beside it."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._styles = surface.styles
        self._stream: MarkdownStream | None = None
        self._thought = False

    def title(self, label: str, sentence: str) -> None:
        name, *rest = wrap(f"{printable(label)} {sentence}", self._surface.columns)
        shown = name.removeprefix(printable(label))
        self._surface.write(self._styles.paint(printable(label), "bold") + shown if shown != name else name)
        for line in rest:
            self._surface.write(line)

    def say(self, words: str, *, thought: bool = False) -> None:
        if not words:
            return
        if self._stream is None or thought != self._thought:
            self.end()
            plain = Styles(attributes=False, colours=False)
            self._stream = MarkdownStream(plain if thought else self._styles, self._surface.columns)
            self._thought = thought
        self._stream.resize(self._surface.columns)
        for line in self._stream.feed(words):
            self._write(line)
        self._surface.live(self._painted(self._stream.tail))

    def end(self) -> None:
        if self._stream is None:
            return
        rest, self._stream = self._stream.finish(), None
        self._surface.live("")
        for line in rest:
            self._write(line)

    def aside(self, sentence: str, style: str) -> None:
        self.end()
        self.remark(sentence, style)

    def line(self, sentence: str, style: str) -> None:
        self.end()
        shown = shorten_columns(sentence, self._surface.columns - _MARGIN)
        self._surface.write(" " * _MARGIN + self._styles.paint(shown, style))

    def remark(self, sentence: str, style: str) -> None:
        for part in sentence.split("\n"):
            for line in wrap(printable(part), self._surface.columns - 2 * _MARGIN):
                self._surface.write(" " * _MARGIN + self._styles.paint(line, style))

    def wait(self, sentence: str | None) -> None:
        self._surface.wait(sentence)

    def _write(self, line: str) -> None:
        self._surface.write(self._painted(line))

    def _painted(self, line: str) -> str:
        return self._styles.paint(line, "dim italic") if self._thought else line


class OutputSurface:
    """A terminal that nobody types into. A dumb one shows complete lines only."""

    def __init__(self, out: TextIO, environment: Mapping[str, str] = os.environ) -> None:
        self._out = out
        self._environment = environment
        self._moves = not is_dumb(environment)
        self._line = ""
        self._sign = ""
        self.styles = styles_for(environment)

    @property
    def columns(self) -> int:
        asked = self._environment.get("COLUMNS", "")
        return int(asked) if asked.isdigit() and int(asked) else shutil.get_terminal_size().columns

    def write(self, line: str) -> None:
        self._out.write(f"{_REWRITE if self._drawn else ''}{line}\n{self._drawn}")
        self._out.flush()

    def live(self, line: str) -> None:
        self._draw(line, "" if line else self._sign)

    def wait(self, sentence: str | None) -> None:
        self._draw(self._line, "" if sentence is None else self.styles.paint(f"… {sentence}", "dim"))

    @property
    def _drawn(self) -> str:
        return (self._line or self._sign) if self._moves else ""

    def _draw(self, line: str, sign: str) -> None:
        before = self._drawn
        self._line, self._sign = line, sign
        if self._drawn != before:
            self._out.write(f"{_REWRITE if before else ''}{self._drawn}")
            self._out.flush()


def stdout_page() -> TerminalPage:
    """A page on stdout for a command that reads nothing from its terminal."""
    return TerminalPage(OutputSurface(sys.stdout))

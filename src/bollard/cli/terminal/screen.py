"""Terminals that a person types into while a run writes.

A `Screen` is a surface with an input line of its own. `live_screen` draws it below the output; `plain_screen` is for a
terminal that cannot move its cursor.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from bollard.cli.terminal.columns import line_slices, printable
from bollard.cli.terminal.page import Surface
from bollard.cli.terminal.styles import Styles

MARK: Final = "› "
"""Before the input line."""


class Listener(Protocol):
    """Hears what a person types. Nothing here may block."""

    def line(self, text: str) -> None:
        """A message or a command, without the spaces at its end."""
        ...

    def interrupt(self) -> None:
        """Ctrl-C."""
        ...

    def end(self) -> None:
        """Ctrl-D at an empty line, or the end of the input."""
        ...


class Screen(Surface, Protocol):
    """A surface with an input line."""

    def opened(self, listener: Listener) -> AbstractAsyncContextManager[None]:
        """Read what is typed inside the block."""
        ...

    def clear_draft(self) -> bool:
        """Empty the input line. False if it is empty."""
        ...

    def busy(self, running: bool) -> None:
        """Whether a run is active."""
        ...

    async def pause(self) -> None:
        """Wait for a pause in typing, so that neither a letter of a message nor a key for the question before is taken
        for an answer to the next question."""
        ...

    async def ask_key(self, question: str, keys: Sequence[str]) -> str:
        """Show a question in place of the input line, and wait for one of the keys. Cancelling takes it away. Pasted
        text is no answer. The draft comes back afterwards."""
        ...


def typed_lines(text: str, columns: int, styles: Styles) -> list[str]:
    """A typed message as the output shows it."""
    lines: list[str] = []
    for part in printable(text).split("\n"):
        lines += [part[start:end] for start, end in line_slices(part, columns - len(MARK))]
    return [
        styles.paint(f"{MARK if index == 0 else ' ' * len(MARK)}{line}", "bold") for index, line in enumerate(lines)
    ]

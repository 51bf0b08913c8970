"""Styles of text on a terminal: attributes and colours as escape sequences, or nothing where they are not wanted."""

import os
from collections.abc import Mapping
from typing import Final

_ATTRIBUTES: Final = {"bold": 1, "dim": 2, "italic": 3, "underline": 4, "strike": 9}
_COLOURS: Final = {"red": 31, "green": 32, "yellow": 33, "cyan": 36}
_RESET: Final = "\x1b[0m"


class Styles:
    """Paints text. A style is the names of its attributes and its colour, separated by spaces."""

    def __init__(self, *, attributes: bool, colours: bool) -> None:
        self._codes = {**(_ATTRIBUTES if attributes else {}), **(_COLOURS if colours else {})}
        self.attributes = attributes
        """Whether the terminal shows styles at all; a dumb one does not, and gets Markdown unchanged."""

    def paint(self, text: str, style: str) -> str:
        codes = ";".join(str(self._codes[name]) for name in style.split() if name in self._codes)
        return f"\x1b[{codes}m{text}{_RESET}" if codes and text else text


def styles_for(environment: Mapping[str, str] = os.environ) -> Styles:
    """The styles that the terminal of the environment shows. `NO_COLOR` keeps bold and dim."""
    attributes = not is_dumb(environment)
    return Styles(attributes=attributes, colours=attributes and not environment.get("NO_COLOR"))


def is_dumb(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal cannot move its cursor."""
    return environment.get("TERM", "dumb") in ("dumb", "unknown", "")

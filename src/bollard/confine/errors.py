"""What confinement refuses, as one tree.

ConfineError
├── PathRefused     not a name of something inside; every such path gets the same sentence
├── NotThere        nothing has this name
├── NotThatKind     a folder where a file is needed, or the other way round, or neither
├── OverLimit       larger, deeper or more than a named limit
├── LevelMissing    the confinement that is demanded cannot be had here
└── JailBroken      the jail could not be made around a program; the program was not started
"""

__all__ = ["ConfineError", "JailBroken", "LevelMissing", "NotThatKind", "NotThere", "OverLimit", "PathRefused"]


class ConfineError(Exception):
    """Root of the tree: a sentence, and what to do next."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class PathRefused(ConfineError):
    """The sentence does not tell why, nor whether anything is there: an attacker learns nothing from it."""

    def __init__(self) -> None:
        super().__init__(
            "this is not a path inside the folder",
            hint="use a plain relative path such as notes/today.txt; links, '..' and absolute paths are not followed",
        )


class NotThere(ConfineError):
    """Nothing has this name."""


class NotThatKind(ConfineError):
    """A folder where a file is needed, or the other way round."""


class OverLimit(ConfineError):
    """Larger, deeper or more than a named limit."""


class LevelMissing(ConfineError):
    """The confinement that is demanded cannot be had here."""


class JailBroken(ConfineError):
    """The jail could not be made around a program; the program was not started."""

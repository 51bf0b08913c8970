"""The errors of confinement, as one tree.

ConfineError
├── PathRefused     the path leads outside; every such path gets the same message
├── PathNotFound    the path does not exist
├── WrongFileKind   a folder where a file is needed, or the other way round, or neither
├── OverLimit       larger, deeper or more than a named limit
├── LevelMissing    the required confinement is unavailable
└── JailBroken      the jail could not be built; the program was not started
"""


class ConfineError(Exception):
    """Root of the tree. Carries a message and a hint."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class PathRefused(ConfineError):
    """The path leads outside the folder. The message does not say why or whether the target exists."""

    def __init__(self) -> None:
        super().__init__(
            "this is not a path inside the folder",
            hint="use a plain relative path such as notes/today.txt; links, '..' and absolute paths are not followed",
        )


class PathNotFound(ConfineError):
    """The path does not exist."""


class WrongFileKind(ConfineError):
    """A folder where a file is needed, or the other way round."""


class OverLimit(ConfineError):
    """Larger, deeper or more than a named limit."""


class LevelMissing(ConfineError):
    """The required confinement is unavailable. `missing` is the type of the problem."""

    def __init__(self, message: str, *, hint: str = "", missing: str = "") -> None:
        super().__init__(message, hint=hint)
        self.missing = missing


class JailBroken(ConfineError):
    """The jail could not be built; the program was not started."""

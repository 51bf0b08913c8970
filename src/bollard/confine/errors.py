"""The errors of confinement, as one tree.

ConfineError
├── PathRefused     the path leads outside; every such path gets the same message
├── PathNotFound    the path does not exist
├── WrongFileKind   a folder where a file is needed, or the other way round, or neither
├── OverLimit       larger, deeper or more than a named limit
├── LevelMissing    the required confinement is unavailable
└── JailBroken      the jail could not be built; the program was not started
"""

from collections.abc import Mapping
from typing import Any


class ConfineError(Exception):
    """Root of the tree. Carries a message and a hint; `details` has the type of the problem and its values, by which a
    translation is found."""

    def __init__(self, message: str, *, hint: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: Mapping[str, Any] = details or {}


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

    def __init__(
        self, message: str, *, hint: str = "", missing: str = "", details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, hint=hint, details=details)
        self.missing = missing


class JailBroken(ConfineError):
    """The jail could not be built; the program was not started."""

"""The errors of keys, signatures and cursors, as one tree.

TrustError
├── NotCanonical    a value has no canonical JSON
├── KeyFileError    a key file is unusable
├── BadCursor       a cursor was altered, or made for another purpose or scope
└── BadSignature    a signature does not match
"""

from typing import Any


class TrustError(Exception):
    """Root of the tree."""


class NotCanonical(TrustError):
    """RFC 8785 cannot write the value: NaN, a lone surrogate, an integer beyond ±2^53, or a key that is not text."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class KeyFileError(TrustError):
    """A key file is unreadable, readable by others, or does not hold a key. `details` holds the type of the problem and
    its values, by which a translation is found."""

    def __init__(self, path: str, problem: str, hint: str, problem_type: str, **values: Any) -> None:
        super().__init__(f"{path}: {problem}\nhint: {hint}")
        self.path = path
        self.problem = problem
        self.hint = hint
        self.details: dict[str, Any] = {"problem_type": problem_type, **values}


class BadCursor(TrustError):
    """A cursor was altered, or was made for another purpose or scope."""


class BadSignature(TrustError):
    """A signature does not match its text and key."""

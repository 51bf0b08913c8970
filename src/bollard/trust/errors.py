"""What can be wrong with keys, signatures and cursors.

TrustError
├── NotCanonical    a value that has no canonical JSON
├── KeyFileError    a key file that cannot be used
├── BadCursor       a cursor that this host did not make, or not for this use
└── BadSignature    a signature that does not fit
"""

__all__ = ["BadCursor", "BadSignature", "KeyFileError", "NotCanonical", "TrustError"]


class TrustError(Exception):
    """Root of the tree."""


class NotCanonical(TrustError):
    """A value that RFC 8785 cannot write: NaN, a lone surrogate, an integer beyond ±2^53, a key that is no text."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class KeyFileError(TrustError):
    """A key file that cannot be read, is readable by others, or holds something else."""

    def __init__(self, path: str, problem: str, hint: str) -> None:
        super().__init__(f"{path}: {problem}\nhint: {hint}")
        self.path = path
        self.problem = problem
        self.hint = hint


class BadCursor(TrustError):
    """A cursor that was altered, or was made for another call or scope."""


class BadSignature(TrustError):
    """A signature that does not fit its text and key."""

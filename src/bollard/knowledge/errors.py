"""What this process refuses, as one tree. Each has the code of an error of the host, a sentence and a hint.

KnowledgeError
├── Absent           there is no such base or document
├── TooLarge         a document, a question or what is said of it is larger than its limit
├── Unusable         a question that cannot be one
├── OutOfService     the tables cannot be had, or not now
│   └── WriterLost   this process cannot write any more, and the next can
└── Unreadable       a document from which no text can be taken; it stays, with this sentence
"""

from typing import ClassVar

__all__ = ["Absent", "KnowledgeError", "OutOfService", "TooLarge", "Unreadable", "Unusable", "WriterLost"]


class KnowledgeError(Exception):
    """Something that was asked for is not done."""

    code: ClassVar[str] = "knowledge_unavailable"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Absent(KnowledgeError):
    """There is no such base or document."""

    code = "not_found"


class TooLarge(KnowledgeError):
    """More than a limit allows."""

    code = "payload_too_large"


class Unusable(KnowledgeError):
    """What was asked cannot be answered."""

    code = "invalid_request"


class OutOfService(KnowledgeError):
    """The tables cannot be written or read."""


class WriterLost(OutOfService):
    """The connection is gone that this process may write over."""


class Unreadable(KnowledgeError):
    """No text can be taken from a document."""

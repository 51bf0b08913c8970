"""Errors of the knowledge process, as one tree. Each has the code and reason of an error of the host.

KnowledgeError
├── Absent           an unknown base or document
├── TooLarge         a document, its metadata or a question is larger than its limit
├── Unusable         an invalid question
├── OutOfService     the tables are unavailable
│   └── WriterLost   this process can no longer write; the next one can
└── Unreadable       no text can be extracted from a document; its row keeps the sentence, the reason and the hint
"""

from typing import ClassVar


class KnowledgeError(Exception):
    """Root of the tree. `details` holds the values in the sentence and the hint."""

    code: ClassVar[str] = "knowledge_unavailable"

    def __init__(self, message: str, *, hint: str = "", reason: str = "", **details: str | int) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.reason = reason
        self.details = details


class Absent(KnowledgeError):
    """An unknown base or document."""

    code = "not_found"


class TooLarge(KnowledgeError):
    """Larger than a limit."""

    code = "payload_too_large"


class Unusable(KnowledgeError):
    """An invalid question."""

    code = "invalid_request"


class OutOfService(KnowledgeError):
    """The tables cannot be read or written."""


class WriterLost(OutOfService):
    """The connection that holds the write lock is gone."""


class Unreadable(KnowledgeError):
    """A document cannot be indexed. The code is no code of the API: it names the texts of the reasons."""

    code = "document_unreadable"

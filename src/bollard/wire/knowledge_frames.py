"""The messages between the host and its knowledge process, in MessagePack.

Both ends are of this installation and of one version, so this is no protocol that anybody else speaks.
"""

from typing import Any, Final, Literal

import msgspec

from bollard.protocol.limits import KIB, MIB

__all__ = [
    "DOCUMENT_BYTES",
    "FRAME_BYTES",
    "QUESTION_BYTES",
    "TOP_K",
    "UNFINISHED",
    "Answer",
    "AskContent",
    "AskDocument",
    "AskDocuments",
    "Begin",
    "Body",
    "Busy",
    "Chunk",
    "Close",
    "DocumentRow",
    "Done",
    "DropBase",
    "DropDocument",
    "Failed",
    "Found",
    "FromHost",
    "FromKnowledge",
    "Listed",
    "OpenBase",
    "Opened",
    "PutDocument",
    "Refused",
    "Retrieve",
    "Shown",
    "Status",
    "decode_from_host",
    "decode_from_knowledge",
    "encode_frame",
]

DOCUMENT_BYTES: Final = 32 * MIB
"""One document."""
FRAME_BYTES: Final = DOCUMENT_BYTES + 256 * KIB
"""One frame: a document, and what is said around it."""
QUESTION_BYTES: Final = 64 * KIB
"""One question with its filters."""
UNFINISHED: Final = "knowledge.unfinished"
"""A file in the data directory while there is work: the next host sees by it that the process is needed."""
TOP_K: Final = 50
"""Chunks that one question may ask for."""

Status = Literal["waiting", "indexing", "ready", "failed"]


class _Frame(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Told apart by the name of its class."""


class Begin(_Frame, frozen=True, kw_only=True, tag=True):
    """What to write to."""

    database: str
    """Empty is SQLite in the data directory."""
    data: str


class Close(_Frame, frozen=True, kw_only=True, tag=True):
    """End what is under way at the next batch, and leave."""


class OpenBase(_Frame, frozen=True, kw_only=True, tag=True):
    """Make a base, or take over what changed of it."""

    call: int
    workspace: str
    kb_id: str
    embedding: str
    chunk_tokens: int
    overlap_tokens: int


class DropBase(_Frame, frozen=True, kw_only=True, tag=True):
    """Forget a base with its documents. One that is not there is forgotten already."""

    call: int
    workspace: str
    kb_id: str


class PutDocument(_Frame, frozen=True, kw_only=True, tag=True):
    """Keep a document, and index it soon."""

    call: int
    workspace: str
    kb_id: str
    document_id: str
    name: str
    mime_type: str
    content: bytes
    source: str
    metadata: dict[str, Any]


class AskDocuments(_Frame, frozen=True, kw_only=True, tag=True):
    """A page of documents."""

    call: int
    workspace: str
    kb_id: str
    after: str
    limit: int


class AskDocument(_Frame, frozen=True, kw_only=True, tag=True):
    """One document as it stands."""

    call: int
    workspace: str
    kb_id: str
    document_id: str


class AskContent(_Frame, frozen=True, kw_only=True, tag=True):
    """The bytes of one document."""

    call: int
    workspace: str
    kb_id: str
    document_id: str


class DropDocument(_Frame, frozen=True, kw_only=True, tag=True):
    """Forget a document."""

    call: int
    workspace: str
    kb_id: str
    document_id: str


class Retrieve(_Frame, frozen=True, kw_only=True, tag=True):
    """Ask a base."""

    call: int
    workspace: str
    kb_id: str
    query: str
    top_k: int
    filters: dict[str, Any]


class Opened(_Frame, frozen=True, kw_only=True, tag=True):
    """The tables are there."""

    vectors: Literal["process", "database"]
    """Who finds the nearest of them: `database` where PostgreSQL has pgvector."""


class Refused(_Frame, frozen=True, kw_only=True, tag=True):
    """It cannot serve. Nothing follows."""

    message: str
    hint: str


class Busy(_Frame, frozen=True, kw_only=True, tag=True):
    """Whether something is being indexed or cleared away."""

    busy: bool


class Done(_Frame, frozen=True, kw_only=True, tag=True):
    """A call without an answer of its own is carried out."""

    call: int


class DocumentRow(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it stands."""

    document_id: str
    name: str
    mime_type: str
    size_bytes: int
    sha256: str
    status: Status
    chunks: int
    done_chunks: int
    error: str | None
    source: str
    metadata: dict[str, Any]
    created_ms: int
    updated_ms: int


class Shown(_Frame, frozen=True, kw_only=True, tag=True):
    """One document."""

    call: int
    document: DocumentRow


class Listed(_Frame, frozen=True, kw_only=True, tag=True):
    """Documents, in order of their ids."""

    call: int
    documents: list[DocumentRow]


class Body(_Frame, frozen=True, kw_only=True, tag=True):
    """The bytes of a document."""

    call: int
    content: bytes


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a document that answers a question."""

    number: int
    text: str
    score: float
    document_id: str
    name: str
    source: str
    headings: list[str]
    page: int | None
    start: int
    end: int
    metadata: dict[str, Any]


class Found(_Frame, frozen=True, kw_only=True, tag=True):
    """Best first."""

    call: int
    chunks: list[Chunk]


class Failed(_Frame, frozen=True, kw_only=True, tag=True):
    """A call that was not carried out. `code` is that of an error of the host."""

    call: int
    code: str
    message: str
    hint: str


FromHost = (
    Begin
    | Close
    | OpenBase
    | DropBase
    | PutDocument
    | AskDocuments
    | AskDocument
    | AskContent
    | DropDocument
    | Retrieve
)
Answer = Done | Shown | Listed | Body | Found | Failed
FromKnowledge = Opened | Refused | Busy | Answer

encode_frame: Final = msgspec.msgpack.Encoder().encode
decode_from_host: Final = msgspec.msgpack.Decoder(FromHost).decode
decode_from_knowledge: Final = msgspec.msgpack.Decoder(FromKnowledge).decode

"""The messages between the host and its knowledge process, in MessagePack.

Both ends always have the same version, so this is not a public protocol.
"""

from typing import Any, Final, Literal

import msgspec

from bollard.protocol.limits import KIB, MIB

DOCUMENT_BYTES: Final = 32 * MIB
"""The largest document."""
FRAME_BYTES: Final = DOCUMENT_BYTES + 256 * KIB
"""The largest frame: a document and its envelope."""
QUESTION_BYTES: Final = 64 * KIB
"""The largest question with its filters."""
TABLES_FOLDER: Final = "knowledge-tables"
"""The folder of the knowledge process in the data directory."""
UNFINISHED: Final = "knowledge.unfinished"
"""A file in the data directory while there is unfinished work, so that the next host starts the process."""
TOP_K: Final = 50
"""The most chunks of one question."""

Status = Literal["waiting", "indexing", "ready", "failed"]


class _Frame(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A message, tagged with the name of its class."""


class Begin(_Frame, frozen=True, kw_only=True):
    """Open the store."""

    database: str
    """Empty for SQLite in the folder."""
    data: str
    """The folder of the process."""
    is_alone: bool = False
    """Whether the role of the database must have no right to a table of others."""
    is_confined: bool = False
    """Whether the process confines itself to its folder and, on PostgreSQL, the network."""


class Close(_Frame, frozen=True):
    """Stop after the current batch and exit."""


class _Call(_Frame, frozen=True, kw_only=True):
    """A call on one base. Each call gets one answer with the same number."""

    call: int
    workspace: str
    kb_id: str


class ExtractText(_Frame, frozen=True, kw_only=True):
    """Extract the text of a document that is in no base; the answer has `limit` characters from `offset` on."""

    call: int
    name: str
    mime_type: str
    content: bytes
    offset: int
    limit: int


class OpenBase(_Call, frozen=True, kw_only=True):
    """Create or update a base."""

    embedding: str
    chunk_tokens: int
    overlap_tokens: int


class DropBase(_Call, frozen=True):
    """Delete a base with its documents; succeeds if it does not exist."""


class PutDocument(_Call, frozen=True, kw_only=True):
    """Store a document; it is indexed soon."""

    document_id: str
    name: str
    mime_type: str
    content: bytes
    source: str
    metadata: dict[str, Any]


class AskDocuments(_Call, frozen=True, kw_only=True):
    """List a page of documents."""

    after: str
    limit: int


class AskDocument(_Call, frozen=True, kw_only=True):
    """Show one document."""

    document_id: str


class AskContent(_Call, frozen=True, kw_only=True):
    """Read the bytes of one document."""

    document_id: str


class DropDocument(_Call, frozen=True, kw_only=True):
    """Delete a document."""

    document_id: str


class Retrieve(_Call, frozen=True, kw_only=True):
    """Search a base."""

    query: str
    top_k: int
    filters: dict[str, Any]


class Opened(_Frame, frozen=True, kw_only=True):
    """The store is open."""

    vectors: Literal["process", "database"]
    """Where vectors are compared: `database` if PostgreSQL has pgvector."""


class _Failure(_Frame, frozen=True, kw_only=True):
    message: str
    hint: str
    reason: str = ""
    details: dict[str, str | int] = {}


class Refused(_Failure, frozen=True):
    """The process cannot serve and ends."""


class Busy(_Frame, frozen=True, kw_only=True):
    """Whether there is work in progress, such as indexing or deleting."""

    busy: bool


class _Answer(_Frame, frozen=True, kw_only=True):
    call: int


class Done(_Answer, frozen=True):
    """A call without a result has succeeded."""


class DocumentProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a document failed, for programs: the sentence is in `DocumentRow.error`."""

    reason: str
    hint: str = ""
    details: dict[str, str | int] = {}
    """The values in the sentence and the hint."""


class DocumentRow(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a document."""

    document_id: str
    name: str
    mime_type: str
    size_bytes: int
    sha256: str
    status: Status
    chunks: int
    done_chunks: int
    error: str | None
    problem: DocumentProblem | None
    """`None` for a document that is not failed, and for one that failed before reasons were stored."""
    source: str
    metadata: dict[str, Any]
    created_ms: int
    updated_ms: int


class Shown(_Answer, frozen=True, kw_only=True):
    """One document."""

    document: DocumentRow


class Listed(_Answer, frozen=True, kw_only=True):
    """Documents, in order of their ids."""

    documents: list[DocumentRow]


class Body(_Answer, frozen=True, kw_only=True):
    """The bytes of a document."""

    content: bytes


class Text(_Answer, frozen=True, kw_only=True):
    """A part of the text of a document, or why it has none."""

    text: str = ""
    characters: int = 0
    """Of the whole text."""
    problem: str | None = None


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a document that matches a question."""

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


class Found(_Answer, frozen=True, kw_only=True):
    """The results, best first."""

    chunks: list[Chunk]


class Failed(_Failure, frozen=True, kw_only=True):
    """A call that was not carried out. `code`, `reason` and `details` are those of an error of the host."""

    call: int
    code: str


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
    | ExtractText
)
Answer = Done | Shown | Listed | Body | Text | Found | Failed
FromKnowledge = Opened | Refused | Busy | Answer

encode_frame: Final = msgspec.msgpack.Encoder().encode
decode_from_host: Final = msgspec.msgpack.Decoder(FromHost).decode
decode_from_knowledge: Final = msgspec.msgpack.Decoder(FromKnowledge).decode

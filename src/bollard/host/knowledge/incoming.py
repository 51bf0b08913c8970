"""Documents from a backup or an import that wait for the engine: one file per document, with a header line and the
content."""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from bollard.host.errors import InvalidRequest
from bollard.host.knowledge.boundary import NewDocument, check_metadata
from bollard.host.knowledge.limits import (
    DOCUMENT_BYTES,
    DOCUMENT_ID_CHARACTERS,
    DOCUMENT_NAME_CHARACTERS,
    INCOMING_HEAD_BYTES,
    MIME_CHARACTERS,
    SOURCE_CHARACTERS,
)

_log = structlog.get_logger("bollard.knowledge")

FOLDER: Final = "knowledge"
"""Below the data directory."""
SUFFIX: Final = ".document"


class _Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workspace: str
    kb_id: str
    document_id: str
    name: str
    mime_type: str
    source: str
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedDocument:
    """A document with its workspace and knowledge base."""

    workspace: str
    kb_id: str
    document: NewDocument = field(repr=False)


_decode: Final = msgspec.json.Decoder(_Head).decode


def head_of(
    *, workspace: str, kb_id: str, document_id: str, name: str, mime_type: str, source: str, metadata: dict[str, Any]
) -> bytes:
    """The header line of a file."""
    head = _Head(
        workspace=workspace,
        kb_id=kb_id,
        document_id=document_id,
        name=name,
        mime_type=mime_type,
        source=source,
        metadata=metadata,
    )
    return msgspec.json.encode(head) + b"\n"


def read_head(line: bytes) -> UploadedDocument:
    """Parse a header line; the content is empty. Raises `InvalidRequest`, because the file is untrusted."""
    try:
        head = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _unusable(str(error)) from error
    checked = (
        (head.document_id, DOCUMENT_ID_CHARACTERS),
        (head.name, DOCUMENT_NAME_CHARACTERS),
        (head.mime_type, MIME_CHARACTERS),
        (head.source, max(SOURCE_CHARACTERS, DOCUMENT_NAME_CHARACTERS)),
    )
    if any(len(text) > most for text, most in checked) or not head.document_id:
        raise _unusable("a field is too long or empty")
    return UploadedDocument(
        workspace=head.workspace,
        kb_id=head.kb_id,
        document=NewDocument(
            document_id=head.document_id,
            name=head.name,
            mime_type=head.mime_type,
            content=b"",
            source=head.source,
            metadata=check_metadata(head.metadata),
        ),
    )


class UploadFolder:
    """The folder of these files. All methods block."""

    def __init__(self, data: Path) -> None:
        self._folder = data / FOLDER

    def __bool__(self) -> bool:
        """Whether the folder has a file."""
        return next(self._folder.glob(f"*{SUFFIX}"), None) is not None

    def files(self) -> list[Path]:
        """All files, oldest first."""
        return sorted(self._folder.glob(f"*{SUFFIX}"))

    def read(self, file: Path) -> UploadedDocument | None:
        """The document of a file; `None` if the file is unusable."""
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as opened:
                line = opened.readline(INCOMING_HEAD_BYTES + 1)
                content = opened.read(DOCUMENT_BYTES + 1)
            if len(line) > INCOMING_HEAD_BYTES or len(content) > DOCUMENT_BYTES:
                raise _unusable("it is too large")
            found = read_head(line)
        except (OSError, InvalidRequest) as error:
            _log.warning("a restored document is unusable", file=file.name, problem=str(error))
            return None
        return replace(found, document=msgspec.structs.replace(found.document, content=content))

    @staticmethod
    def remove(file: Path) -> None:
        file.unlink(missing_ok=True)


def _unusable(problem: str) -> InvalidRequest:
    return InvalidRequest(
        f"this is not a document of a knowledge base: {problem}",
        hint="export it again",
        reason="knowledge_file_unusable",
        field="head",
        problem=problem,
    )

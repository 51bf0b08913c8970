"""Extracts text from documents. Untrusted formats are parsed in a child process with a time limit; if it dies, only
the current document fails."""

import os
import socket
import subprocess
import sys
import time
from typing import Final, Literal

import msgspec

from bollard.helper.host_link import READ_BYTES, FrameReader, framed
from bollard.knowledge.errors import Unreadable
from bollard.knowledge.limits import CHILD_DOCUMENTS, EXTRACT_S, EXTRACTED_CHARACTERS
from bollard.knowledge.plain_text import Extracted, Order, Problem, plain_text

# --- document kinds ---


Kind = Literal["text", "markdown", "html", "pdf", "docx"]

_KINDS: Final[dict[str, Kind]] = {
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "application/x-pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/json": "text",
    "application/x-ndjson": "text",
    "application/yaml": "text",
    "application/x-yaml": "text",
    "application/toml": "text",
    "application/xml": "text",
}
_SUFFIXES: Final[dict[str, Kind]] = {
    "md": "markdown",
    "markdown": "markdown",
    "html": "html",
    "htm": "html",
    "xhtml": "html",
    "pdf": "pdf",
    "docx": "docx",
    "txt": "text",
    "text": "text",
    "csv": "text",
    "json": "text",
    "yaml": "text",
    "yml": "text",
    "rst": "text",
    "log": "text",
}
_VAGUE: Final = frozenset({"", "text/plain", "application/octet-stream", "binary/octet-stream", "application/zip"})
"""Types that are less specific than the file name."""


def kind_of(mime_type: str, name: str) -> Kind | None:
    """The kind of a document; `None` if it is not supported."""
    plain = mime_type.partition(";")[0].strip().lower()
    if plain in _VAGUE:
        named = _SUFFIXES.get(name.rpartition(".")[2].lower()) if "." in name else None
        return named or ("text" if plain == "text/plain" else None)
    return _KINDS.get(plain) or ("text" if plain.startswith("text/") else None)


def charset_of(mime_type: str) -> str:
    """The value of `charset=`; empty if missing."""
    for parameter in mime_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'").lower()[:40]
    return ""


_MODULE: Final = "bollard.knowledge.extraction_child"
_ANSWER_BYTES: Final = 5 * EXTRACTED_CHARACTERS
"""At most four bytes per character, plus the frame."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Extracted | Problem).decode


class Extractor:
    """Extracts the text of one document at a time, in one thread. Another thread may call `interrupt` to stop it."""

    def __init__(self, patience_s: float = EXTRACT_S) -> None:
        self._patience_s = patience_s
        self._child: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._served = 0

    def extract(self, content: bytes, *, mime_type: str, name: str) -> Extracted:
        """Extract the text of a document. Raises `Unreadable`."""
        kind = kind_of(mime_type, name)
        if kind is None:
            raise Unreadable(
                f"documents of type {mime_type[:100]} are not supported",
                hint="send it as text, Markdown, HTML, PDF or DOCX",
                reason="document_type",
                mime_type=mime_type[:100],
            )
        charset = charset_of(mime_type)
        if kind in ("text", "markdown"):
            return plain_text(content, charset, structured=kind == "markdown")
        answer = self._ask(Order(kind=kind, content=content, charset=charset))
        if isinstance(answer, Problem):
            raise answer.error()
        return answer

    def interrupt(self) -> None:
        child = self._child
        if child is not None:
            child.kill()

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
        if self._connection is not None:
            self._connection.close()

    def _ask(self, order: Order) -> Extracted | Problem:
        connection = self._connect()
        until = time.monotonic() + self._patience_s
        try:
            answer = _decode(_exchange(connection, _encode(order), until))
        except TimeoutError:
            self.close()
            seconds = f"{self._patience_s:g}"
            raise Unreadable(
                f"its text was not extracted within {seconds} s",
                hint="split it, or send its text",
                reason="extraction_timeout",
                seconds=seconds,
            ) from None
        except (OSError, ValueError, msgspec.MsgspecError):
            self.close()
            raise Unreadable(
                "the extraction process crashed while reading it", hint="send its text", reason="extraction_crashed"
            ) from None
        self._served += 1
        if self._served >= CHILD_DOCUMENTS:
            self.close()
        return answer

    def _connect(self) -> socket.socket:
        """Return the connection to the child process, which is started if there is none."""
        if self._child is None or self._connection is None:
            self._served = 0
            self._connection, theirs = socket.socketpair()
            with theirs:
                self._child = subprocess.Popen(  # noqa: S603 -- our own module
                    [sys.executable, "-P", "-m", _MODULE],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={"PATH": os.environ.get("PATH", "")},
                )
        return self._connection


def _exchange(connection: socket.socket, request: bytes, until: float) -> bytes:
    """Send a request and return its answer. Raises `TimeoutError`; `OSError` or `ValueError` if the child failed."""
    frames = FrameReader(_ANSWER_BYTES)
    connection.settimeout(_time_left(until))
    connection.sendall(framed(request))
    while True:
        connection.settimeout(_time_left(until))
        data = connection.recv(READ_BYTES)
        if not data:
            raise ConnectionResetError
        if answers := frames.feed(data):
            return answers[0]


def _time_left(until: float) -> float:
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s

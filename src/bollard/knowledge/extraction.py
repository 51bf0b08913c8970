"""Extracts text from documents. Untrusted formats are parsed in a child process with a time limit; if it dies, only
the current document fails."""

import os
import select
import struct
import subprocess
import sys
import time
from typing import Final, Literal

import msgspec

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
_LENGTH: Final = struct.Struct(">I")
_READ_BYTES: Final = 1 << 20
_ANSWER_BYTES: Final = 5 * EXTRACTED_CHARACTERS
"""At most four bytes per character, plus the frame."""
_decode: Final = msgspec.msgpack.Decoder(Extracted | Problem).decode


class _Ended(Exception):
    """The child process died."""


class Extractor:
    """Extracts the text of one document at a time, in one thread. Another thread may call `interrupt` to stop it."""

    def __init__(self, patience_s: float = EXTRACT_S) -> None:
        self._patience_s = patience_s
        self._child: subprocess.Popen[bytes] | None = None
        self._served = 0

    def extract(self, content: bytes, *, mime_type: str, name: str) -> Extracted:
        """Raises `Unreadable`."""
        kind = kind_of(mime_type, name)
        if kind is None:
            raise Unreadable(
                f"documents of the type {mime_type[:100]} are not read",
                hint="give it as text, Markdown, HTML, PDF or DOCX",
            )
        charset = charset_of(mime_type)
        if kind in ("text", "markdown"):
            return plain_text(content, charset, structured=kind == "markdown")
        answer = self._asked(Order(kind=kind, content=content, charset=charset))
        if isinstance(answer, Problem):
            raise Unreadable(answer.message)
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
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()

    def _asked(self, order: Order) -> Extracted | Problem:
        child = self._started()
        until = time.monotonic() + self._patience_s
        body = msgspec.msgpack.encode(order)
        try:
            _write(child, _LENGTH.pack(len(body)) + body, until)
            (size,) = _LENGTH.unpack(_read(child, _LENGTH.size, until))
            answer = _decode(_read(child, min(size, _ANSWER_BYTES), until))
        except TimeoutError:
            self.close()
            raise Unreadable(f"its text could not be taken within {self._patience_s:g} s") from None
        except (_Ended, OSError, msgspec.MsgspecError):
            self.close()
            raise Unreadable("it ended the process that reads documents") from None
        self._served += 1
        if self._served >= CHILD_DOCUMENTS:
            self.close()
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._served = 0
            self._child = subprocess.Popen(  # noqa: S603 -- our own module
                [sys.executable, "-P", "-m", _MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.environ.get("PATH", "")},
                bufsize=0,
            )
            for pipe in (self._child.stdin, self._child.stdout):
                if pipe is not None:
                    os.set_blocking(pipe.fileno(), False)
        return self._child


def _await(descriptor: int, event: int, until: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    left_s = until - time.monotonic()
    if left_s <= 0 or not poll.poll(left_s * 1000):
        raise TimeoutError


def _write(child: subprocess.Popen[bytes], data: bytes, until: float) -> None:
    if child.stdin is None:
        raise _Ended
    descriptor = child.stdin.fileno()
    rest = memoryview(data)
    while rest:
        _await(descriptor, select.POLLOUT, until)
        rest = rest[os.write(descriptor, rest[:_READ_BYTES]) :]


def _read(child: subprocess.Popen[bytes], size: int, until: float) -> bytes:
    if child.stdout is None:
        raise _Ended
    descriptor = child.stdout.fileno()
    data = bytearray()
    while len(data) < size:
        _await(descriptor, select.POLLIN, until)
        piece = os.read(descriptor, min(_READ_BYTES, size - len(data)))
        if not piece:
            raise _Ended
        data += piece
    return bytes(data)

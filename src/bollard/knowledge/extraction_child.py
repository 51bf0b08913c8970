"""`python -m bollard.knowledge.extraction_child`: reads documents that strangers made, one at a time, tells their text.

It has no socket and no table; its memory and its files are bounded, where the kernel can it sees no file but code, and
whoever started it ends it when it takes too long. It ends when its standard input does.
"""

import contextlib
import ctypes
import logging
import os
import resource
import signal
import struct
import sys
from io import BytesIO
from typing import BinaryIO, Final

import msgspec
from pypdf import PdfReader
from pypdf.errors import DependencyError, PyPdfError

from bollard.confine.landlock import restrict
from bollard.confine.seccomp import install, jail_filter
from bollard.knowledge.docx_text import docx_text
from bollard.knowledge.errors import Unreadable
from bollard.knowledge.html_text import html_text
from bollard.knowledge.limits import CHILD_FILES, CHILD_MEMORY_BYTES, EXTRACTED_CHARACTERS, PAGES, PROBLEM_CHARACTERS
from bollard.knowledge.plain_text import Extracted, Order, Problem

# --- PDF ---


_BREAK = "\n\n"


def pdf_text(content: bytes) -> Extracted:
    """The text of a PDF. Raises `Unreadable`, and any error of the library for a broken file."""
    try:
        reader = PdfReader(BytesIO(content), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("it is encrypted", hint="give it without a password")
        count = len(reader.pages)
    except DependencyError as error:
        raise Unreadable("it is encrypted", hint="give it without a password") from error
    except PyPdfError as error:
        raise Unreadable(f"it is no PDF that can be read: {error}", hint="save it anew") from error
    if count > PAGES:
        raise Unreadable(f"it has {count} pages; {PAGES} are the most", hint="cut it into several")
    parts: list[str] = []
    pages: list[tuple[int, int]] = []
    size = 0
    for number, page in enumerate(reader.pages, start=1):
        text = page.extract_text().replace("\0", "").strip()
        if not text:
            continue
        pages.append((size, number))
        parts.append(text)
        size += len(text) + len(_BREAK)
        if size > EXTRACTED_CHARACTERS:
            raise Unreadable(f"it has more than {EXTRACTED_CHARACTERS} characters", hint="cut it into several")
    if not parts:
        raise Unreadable("there is no text in it, only pictures", hint="give it with the text recognised")
    return Extracted(text=_BREAK.join(parts), structured=False, pages=tuple(pages))


_LENGTH: Final = struct.Struct(">I")
_PR_SET_PDEATHSIG: Final = 1


def _text_of(order: Order) -> Extracted:
    if order.kind == "html":
        return html_text(order.content, order.charset)
    return docx_text(order.content) if order.kind == "docx" else pdf_text(order.content)


def _read(order: Order) -> Extracted | Problem:
    try:
        return _text_of(order)
    except Unreadable as error:
        return Problem(message=error.message)
    except MemoryError:
        return Problem(message="it needs more memory than a document may have")
    except RecursionError:
        return Problem(message="it is nested too deeply")
    except Exception as error:  # noqa: BLE001 -- a boundary: what a stranger's file makes a library raise
        return Problem(message=f"it is broken: {type(error).__name__}: {error}"[:PROBLEM_CHARACTERS])


def confine() -> None:
    """Drop privileges that parsing does not need. Resource limits apply everywhere, Landlock and seccomp if the kernel
    has them."""
    resource.setrlimit(resource.RLIMIT_AS, (CHILD_MEMORY_BYTES, CHILD_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (CHILD_FILES, CHILD_FILES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError):
            code = {sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(os.path.dirname(__file__)))}
            restrict(readable=sorted(code), writable=(), devices=(os.devnull,))
        with contextlib.suppress(OSError, KeyError):
            install(jail_filter(namespaces=False))


def _heard(stream: BinaryIO, size: int) -> bytes | None:
    data = stream.read(size)
    return data if len(data) == size else None


def main() -> int:
    """Serve until standard input ends."""
    confine()
    logging.disable(logging.CRITICAL)  # libraries log parts of the documents
    sys.dont_write_bytecode = True  # no file may grow
    decode, encode = msgspec.msgpack.Decoder(Order).decode, msgspec.msgpack.Encoder().encode
    incoming = sys.stdin.buffer
    # Output of a library must not look like an answer.
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    while (head := _heard(incoming, _LENGTH.size)) is not None:
        body = _heard(incoming, *_LENGTH.unpack(head))
        if body is None:
            break
        answer = encode(_read(decode(body)))
        outgoing.write(_LENGTH.pack(len(answer)) + answer)
        outgoing.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

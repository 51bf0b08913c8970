"""`python -m bollard.knowledge.extraction_child`: extracts the text of untrusted HTML, PDF and DOCX documents.

The process has no socket and no table. Its memory and its open files are limited. Where the kernel allows it, the
process can read only code. Its parent kills it after a time limit. It exits when its standard input ends.
"""

import contextlib
import ctypes
import logging
import os
import re
import resource
import signal
import socket
import sys
from html.parser import HTMLParser
from io import BytesIO
from typing import Final

import msgspec
from pypdf import PdfReader
from pypdf.errors import DependencyError, PyPdfError

from bollard.confine.landlock import restrict
from bollard.confine.seccomp import install, jail_filter
from bollard.helper.host_link import HostGone, HostLink, deny_inspection
from bollard.knowledge.docx_text import docx_text
from bollard.knowledge.errors import Unreadable
from bollard.knowledge.limits import CHILD_FILES, CHILD_MEMORY_BYTES, EXTRACTED_CHARACTERS, PAGES, PROBLEM_CHARACTERS
from bollard.knowledge.plain_text import Extracted, Order, Problem, damaged, decoded, too_long

# --- HTML: the visible text, with headings, lists, tables and code as Markdown ---


_DROPPED: Final = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object", "head"})
_BLOCKS: Final = frozenset(
    {
        *("p", "div", "section", "article", "header", "footer", "main", "aside", "nav", "blockquote", "figure"),
        *("ul", "ol", "dl", "table", "form", "fieldset", "address", "hr", "details", "summary", "figcaption", "body"),
    }
)
_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_SPACES: Final = re.compile(r"\s+")
_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([a-zA-Z0-9_-]{1,40})", re.IGNORECASE)
_CHARSET_WITHIN: Final = 2048
_LINES: Final = re.compile(r"\n{3,}")


def html_text(content: bytes, charset: str) -> Extracted:
    """Extract the text. Raises `Unreadable`."""
    declared = _CHARSET.search(content[:_CHARSET_WITHIN])
    reader = _Reader()
    reader.feed(decoded(content, charset or (declared[1].decode().lower() if declared else "")))
    reader.close()
    return Extracted(text=reader.text(), structured=True)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._size = 0
        self._dropped: list[str] = []
        """Open elements whose content is dropped, innermost last."""
        self._pre = 0
        self._cell: list[str] | None = None
        self._at_start = True

    def text(self) -> str:
        return _LINES.sub("\n\n", "".join(self._parts)).strip() + "\n"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs  # they hold no text
        if self._dropped or tag in _DROPPED:
            if tag == "body":
                self._dropped.clear()  # a head that was never closed
            elif tag in _DROPPED:
                self._dropped.append(tag)
            return
        if level := _HEADINGS.get(tag):
            self._break()
            self._add("#" * level + " ")
        elif tag == "pre":
            self._break()
            self._add("```\n")
            self._pre += 1
        elif tag in ("td", "th"):
            self._add("| " if self._at_start else " | ")
            self._cell = []
        elif tag == "br":
            self._add(" " if self._cell is not None else "\n")
        elif tag in ("li", "dt", "dd"):
            self._line()
            self._add("- ")
        elif tag == "tr":
            self._line()
        elif tag in _BLOCKS and self._cell is None:
            self._break()

    def handle_endtag(self, tag: str) -> None:
        if self._dropped:
            if tag in self._dropped:
                while self._dropped.pop() != tag:
                    pass
            return
        if tag in ("td", "th"):
            self._cell = None
        elif tag == "tr":
            self._add(" |")
            self._line()
        elif tag == "pre" and self._pre:
            self._pre -= 1
            self._line()
            self._add("```")
            self._break()
        elif tag in _HEADINGS or (tag in _BLOCKS and self._cell is None):
            self._break()

    def handle_data(self, data: str) -> None:
        if self._dropped:
            return
        if self._pre:
            self._add(data)
            return
        text = _SPACES.sub(" ", data)
        if self._at_start:
            text = text.lstrip()
        if text:
            self._add(text)

    def _line(self) -> None:
        if not self._at_start:
            self._add("\n")

    def _break(self) -> None:
        self._line()
        self._add("\n")

    def _add(self, part: str) -> None:
        self._size += len(part)
        if self._size > EXTRACTED_CHARACTERS:
            raise too_long()
        self._parts.append(part)
        self._at_start = part.endswith("\n")


# --- PDF ---


_BREAK = "\n\n"


def pdf_text(content: bytes) -> Extracted:
    """The text of a PDF. Raises `Unreadable`, and any error of the library for a broken file."""
    try:
        reader = PdfReader(BytesIO(content), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise _encrypted()
        count = len(reader.pages)
    except DependencyError as error:
        raise _encrypted() from error
    except PyPdfError as error:
        problem = str(error)[:PROBLEM_CHARACTERS]
        raise Unreadable(
            f"it is not a valid PDF: {problem}", hint="save it as PDF again", reason="pdf_invalid", problem=problem
        ) from error
    if count > PAGES:
        raise Unreadable(
            f"it has {count} pages; the limit is {PAGES}",
            hint="split it",
            reason="too_many_pages",
            pages=count,
            most=PAGES,
        )
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
            raise too_long()
    if not parts:
        raise Unreadable("it contains no text, only images", hint="recognise its text (OCR) first", reason="no_text")
    return Extracted(text=_BREAK.join(parts), structured=False, pages=tuple(pages))


def _encrypted() -> Unreadable:
    return Unreadable("it is encrypted", hint="remove its password", reason="encrypted")


_PR_SET_PDEATHSIG: Final = 1


def _text_of(order: Order) -> Extracted:
    if order.kind == "html":
        return html_text(order.content, order.charset)
    return docx_text(order.content) if order.kind == "docx" else pdf_text(order.content)


def _read(order: Order) -> Extracted | Problem:
    try:
        return _text_of(order)
    except Unreadable as error:
        found = error
    except MemoryError:
        found = Unreadable("extracting its text exceeds the memory limit", hint="split it", reason="out_of_memory")
    except RecursionError:
        found = Unreadable("it is nested too deeply", hint="send its text", reason="nested_too_deeply")
    except Exception as error:  # noqa: BLE001 -- a boundary: an untrusted file can make a library raise anything
        found = damaged(f"{type(error).__name__}: {error}")
    return Problem.of(found)


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


def main() -> int:
    """Serve the requests on standard input, which is a socket, until it ends."""
    deny_inspection()
    link = HostLink(socket.socket(fileno=os.dup(0)), msgspec.msgpack.Decoder(Order).decode)
    confine()
    logging.disable(logging.CRITICAL)  # libraries log parts of the documents
    sys.dont_write_bytecode = True  # no file may grow
    with contextlib.suppress(HostGone):
        while True:
            for order in link.hear():
                link.say(msgspec.msgpack.encode(_read(order)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

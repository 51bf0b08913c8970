"""Extracts the text of a DOCX: paragraphs, headings by style, tables by row. Sizes are counted instead of trusted, and
entities are never expanded."""

import struct
import zipfile
import zlib
from io import BytesIO
from typing import Final
from xml.parsers.expat import ExpatError, ParserCreate

from bollard.knowledge.errors import Unreadable
from bollard.knowledge.limits import (
    DOCX_RATIO,
    DOCX_RATIO_FREE_BYTES,
    EXTRACTED_CHARACTERS,
    XML_DEPTH,
    ZIP_DIRECTORY_BYTES,
    ZIP_MEMBERS,
)
from bollard.knowledge.plain_text import Extracted, damaged, too_long
from bollard.protocol.limits import KIB

_DOCUMENT: Final = "word/document.xml"
_STYLES: Final = "word/styles.xml"
_W: Final = "http://schemas.openxmlformats.org/wordprocessingml/2006/main "
_PIECE: Final = 64 * KIB
_END: Final = struct.Struct("<4s4H2LH")
_END_MARK: Final = b"PK\5\6"
_COMMENT_BYTES: Final = 0xFFFF
_ENCRYPTED: Final = 0x1
_LEVELS: Final = 6
_BROKEN: Final = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError)


def docx_text(content: bytes) -> Extracted:
    """Extract the text. Raises `Unreadable`."""
    try:
        _check_directory(content)
        with zipfile.ZipFile(BytesIO(content)) as archive:
            styles = _Styles()
            if _STYLES in archive.namelist():
                _parse(archive, _STYLES, styles)
            body = _Body(styles.levels)
            _parse(archive, _DOCUMENT, body)
    except KeyError:
        raise Unreadable(
            "it is not a DOCX: it contains no document", hint="save it as DOCX again", reason="docx_without_document"
        ) from None
    except (*_BROKEN, ExpatError) as error:
        raise damaged(str(error)) from error
    return Extracted(text="".join(body.parts).strip() + "\n", structured=True)


def _check_directory(content: bytes) -> None:
    """Check the directory before `zipfile` creates an object for each entry."""
    at = content.rfind(_END_MARK, max(0, len(content) - _END.size - _COMMENT_BYTES))
    if at < 0 or at + _END.size > len(content):
        raise zipfile.BadZipFile("not a zip file")
    *_, count, directory_bytes, _, _ = _END.unpack_from(content, at)
    if count > ZIP_MEMBERS or directory_bytes > ZIP_DIRECTORY_BYTES:
        raise zipfile.BadZipFile("too many members")


def _parse(archive: zipfile.ZipFile, name: str, handler: "_Styles | _Body") -> None:
    """Parse one member in pieces, and count the bytes."""
    entry = archive.getinfo(name)
    if entry.flag_bits & _ENCRYPTED or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Unreadable(
            "it is encrypted, or uses an unsupported compression", hint="save it as DOCX again", reason="docx_packing"
        )
    parser = ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    nesting = _Nesting(handler)
    parser.StartElementHandler = nesting.start
    parser.EndElementHandler = nesting.end
    parser.CharacterDataHandler = handler.text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.EntityDeclHandler = _refuse_entity
    most = max(DOCX_RATIO_FREE_BYTES, DOCX_RATIO * entry.compress_size)
    size = 0
    with archive.open(entry) as member:
        while piece := member.read(_PIECE):
            size += len(piece)
            if size > most:
                raise Unreadable(
                    f"it unpacks to more than {DOCX_RATIO} times its size",
                    hint="save it as DOCX again",
                    reason="docx_ratio",
                    most=DOCX_RATIO,
                )
            parser.Parse(piece, False)
        parser.Parse(b"", True)


def _refuse_doctype(*_: object) -> None:
    raise Unreadable(
        "it declares a document type, which a DOCX must not do",
        hint="save it as DOCX again",
        reason="docx_document_type",
    )


def _refuse_entity(*_: object) -> None:
    raise Unreadable(
        "it declares entities, which a DOCX must not do", hint="save it as DOCX again", reason="docx_entities"
    )


class _Nesting:
    """Limits the depth of elements."""

    def __init__(self, handler: "_Styles | _Body") -> None:
        self._handler = handler
        self._depth = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > XML_DEPTH:
            raise Unreadable(
                f"its elements are nested deeper than {XML_DEPTH}",
                hint="save it as DOCX again",
                reason="docx_nested",
                most=XML_DEPTH,
            )
        if tag.startswith(_W):
            self._handler.start(tag.removeprefix(_W), attributes)

    def end(self, tag: str) -> None:
        self._depth -= 1
        if tag.startswith(_W):
            self._handler.end(tag.removeprefix(_W))


def _value(attributes: dict[str, str]) -> str:
    return attributes.get(_W + "val", "")


def _level(value: str) -> int | None:
    """Convert an outline level, which counts from 0, to a heading level, which counts from 1."""
    return int(value) + 1 if value.isdecimal() and len(value) == 1 and int(value) < _LEVELS else None


class _Styles:
    """The heading level of each style."""

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}
        self._style = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "style":
            self._style = attributes.get(_W + "styleId", "")
        elif tag == "name" and self._style:
            name = _value(attributes).lower()
            if name == "title":
                self.levels[self._style] = 1
            elif name.startswith("heading ") and name[8:].isdecimal() and 1 <= int(name[8:]) <= _LEVELS:
                self.levels[self._style] = int(name[8:])
        elif tag == "outlineLvl" and self._style and (level := _level(_value(attributes))):
            self.levels.setdefault(self._style, level)

    def end(self, tag: str) -> None:
        if tag == "style":
            self._style = ""

    def text(self, data: str) -> None:
        del data


class _Body:
    """The text of the document."""

    def __init__(self, levels: dict[str, int]) -> None:
        self.parts: list[str] = []
        self._levels = levels
        self._size = 0
        self._paragraph: list[str] = []
        self._level: int | None = None
        self._in_text = False
        self._row: list[str] | None = None
        self._cells: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        match tag:
            case "t":
                self._in_text = True
            case "tab":
                self._paragraph.append("\t")
            case "br" | "cr":
                self._paragraph.append("\n" if self._row is None else " ")
            case "pStyle":
                self._level = self._levels.get(_value(attributes))
            case "outlineLvl":
                self._level = self._level or _level(_value(attributes))
            case "tr":
                self._row = []
            case "tc":
                self._cells = []
            case _:
                pass

    def end(self, tag: str) -> None:
        match tag:
            case "t":
                self._in_text = False
            case "p":
                self._end_paragraph()
            case "tc" if self._row is not None:
                self._row.append(" ".join(self._cells))
                self._cells = []
            case "tr" if self._row is not None:
                self._add("| " + " | ".join(self._row) + " |\n")
                self._row = None
            case "tbl":
                self._add("\n")
            case _:
                pass

    def text(self, data: str) -> None:
        if self._in_text:
            self._size += len(data)
            if self._size > EXTRACTED_CHARACTERS:
                raise too_long()
            self._paragraph.append(data)

    def _end_paragraph(self) -> None:
        text = "".join(self._paragraph).replace("\0", "").strip()
        self._paragraph = []
        level, self._level = self._level, None
        if not text:
            return
        if self._row is not None:
            self._cells.append(text)
        elif level is not None:
            heading = " ".join(text.split())
            self._add(f"{'#' * level} {heading}\n\n")
        else:
            self._add(text + "\n\n")

    def _add(self, part: str) -> None:
        self.parts.append(part)

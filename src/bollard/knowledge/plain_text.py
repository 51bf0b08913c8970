"""Decodes bytes: by their byte order mark, by the declared charset, as UTF-8, and else by the usual encodings of
Chinese and European files."""

import codecs
from typing import Final

import msgspec

from bollard.knowledge.errors import Unreadable
from bollard.knowledge.limits import EXTRACTED_CHARACTERS, PROBLEM_CHARACTERS
from bollard.segments import cjk_characters

# --- values of all formats ---


class Extracted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The text of a document. If `structured`, its headings, tables and code are Markdown."""

    text: str
    structured: bool
    pages: tuple[tuple[int, int], ...] = ()
    """The offset and the number of each page."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the extraction process."""

    kind: str
    content: bytes
    charset: str = ""


class Problem(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Why no text was extracted: the fields of an `Unreadable`."""

    message: str
    hint: str
    reason: str
    details: dict[str, str | int]

    @classmethod
    def of(cls, error: Unreadable) -> "Problem":
        return cls(message=error.message, hint=error.hint, reason=error.reason, details=error.details)

    def error(self) -> Unreadable:
        return Unreadable(self.message, hint=self.hint, reason=self.reason, **self.details)


def damaged(problem: str) -> Unreadable:
    """The error of a document that its parser cannot read."""
    problem = problem[:PROBLEM_CHARACTERS]
    return Unreadable(f"it is damaged: {problem}", hint="save it again", reason="damaged", problem=problem)


def too_long() -> Unreadable:
    """The error of a document with more text than the limit."""
    return Unreadable(
        f"it has more than {EXTRACTED_CHARACTERS} characters",
        hint="split it",
        reason="too_many_characters",
        most=EXTRACTED_CHARACTERS,
    )


_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CHARSETS: Final = frozenset(
    {
        *("utf-8", "utf8", "us-ascii", "ascii", "utf-16", "utf-16le", "utf-16be"),
        *("gb2312", "gbk", "gb18030", "big5", "euc-jp", "shift_jis", "euc-kr"),
        *("iso-8859-1", "iso-8859-15", "latin1", "windows-1250", "windows-1251", "windows-1252", "koi8-r"),
    }
)
"""The accepted charsets. Python knows other codecs that are no text encodings."""
_SURELY_CHINESE: Final = 0.8
"""Share of Chinese among the other than ASCII characters above which GB 18030 is assumed."""


def plain_text(content: bytes, charset: str, *, structured: bool) -> Extracted:
    """Decode a document. Raises `Unreadable`."""
    text = decoded(content, charset).replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise Unreadable(
            "it is not text: it contains zero bytes", hint="send it with its own Content-Type", reason="zero_bytes"
        )
    if len(text) > EXTRACTED_CHARACTERS:
        raise too_long()
    return Extracted(text=text, structured=structured)


def decoded(content: bytes, charset: str) -> str:
    """Never raises: undecodable bytes become replacement characters."""
    for mark, name in _MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(name, "replace")
    if charset in _CHARSETS:
        return content.decode(charset, "replace")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return _guessed(content)


def _guessed(content: bytes) -> str:
    try:
        text = content.decode("gb18030")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")
    foreign = sum(not character.isascii() for character in text)
    return text if cjk_characters(text) >= _SURELY_CHINESE * foreign else content.decode("cp1252", "replace")

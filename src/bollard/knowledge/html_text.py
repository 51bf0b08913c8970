"""HTML as text: what a reader would see, with headings, lists, tables and code written the way Markdown does.

Nothing is fetched and nothing is run. It keeps no tree, so depth costs nothing.
"""

import re
from html.parser import HTMLParser
from typing import Final

from bollard.knowledge.errors import Unreadable
from bollard.knowledge.limits import EXTRACTED_CHARACTERS
from bollard.knowledge.plain_text import Extracted, decoded

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
    """Raises `Unreadable`."""
    said = _CHARSET.search(content[:_CHARSET_WITHIN])
    reader = _Reader()
    reader.feed(decoded(content, charset or (said[1].decode().lower() if said else "")))
    reader.close()
    return Extracted(text=reader.text(), structured=True)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._size = 0
        self._dropped: list[str] = []
        """Elements whose content is nobody's to read, innermost last."""
        self._pre = 0
        self._cell: list[str] | None = None
        self._at_start = True

    def text(self) -> str:
        return _LINES.sub("\n\n", "".join(self._parts)).strip() + "\n"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs  # nothing that they say is text
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
        said = _SPACES.sub(" ", data)
        if self._at_start:
            said = said.lstrip()
        if said:
            self._add(said)

    def _line(self) -> None:
        if not self._at_start:
            self._add("\n")

    def _break(self) -> None:
        self._line()
        self._add("\n")

    def _add(self, part: str) -> None:
        self._size += len(part)
        if self._size > EXTRACTED_CHARACTERS:
            raise Unreadable(f"it has more than {EXTRACTED_CHARACTERS} characters", hint="cut it into several")
        self._parts.append(part)
        self._at_start = part.endswith("\n")

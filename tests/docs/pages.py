"""The pages of the documentation, cut into blocks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.tables import for_each

ROOT = Path(__file__).parents[2]
_COMMAND = re.compile(r"^(    |\t)(\$ )?(bollard|make|pytest|python3?|node|scripts/\w+|echo|curl) ?")
_FENCE = re.compile(r"^(?P<mark>```+|~~~+)(?P<language>\S*)(?P<rest>.*)$")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block: where it begins, its language, its lines."""

    line: int
    language: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass(frozen=True, kw_only=True)
class Page:
    """One Markdown file."""

    path: Path
    text: str
    blocks: tuple[Block, ...]
    prose: str
    """The text without its fenced blocks."""

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def is_chinese(self) -> bool:
        return "zh-CN" in self.name

    @cached_property
    def anchors(self) -> set[str]:
        """The fragment of every heading, as GitHub makes them."""
        found: set[str] = set()
        for title in re.findall(r"^#{1,6} +(.+?) *#*$", self.prose, re.MULTILINE):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").replace("*", "").lower()
            slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
            number = 0
            while (anchor := f"{slug}-{number}" if number else slug) in found:
                number += 1
            found.add(anchor)
        return found


def _cut(text: str) -> Iterator[Block | str]:
    """Blocks, and the lines between them."""
    mark, language, start, inside = "", "", 0, list[str]()
    before = ""
    for number, line in enumerate(text.splitlines(), start=1):
        fence = _FENCE.match(line)
        if mark and fence and fence["mark"].startswith(mark) and not fence["language"]:
            yield Block(line=start, language=language, lines=tuple(inside))
            mark = ""
        elif mark:
            inside.append(line)
        elif fence:
            mark, language, start, inside = fence["mark"], fence["language"] + fence["rest"], number, []
        elif _COMMAND.match(line) and not before.startswith(("- ", "* ")):
            # An indented command is a command too.
            yield Block(line=number, language="sh", lines=(line.strip().removeprefix("$ "),))
        else:
            yield line
        before = line or before
    assert not mark, f"the block that begins at line {start} has no end"


def read_page(path: Path) -> Page:
    """One page, cut into blocks and prose."""
    text = path.read_text(encoding="utf-8")
    pieces = list(_cut(text))
    return Page(
        path=path,
        text=text,
        blocks=tuple(piece for piece in pieces if isinstance(piece, Block)),
        prose="\n".join(piece for piece in pieces if isinstance(piece, str)),
    )


PAGES = [read_page(path) for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])]
every_page = for_each("page", PAGES, ids=[page.name for page in PAGES])

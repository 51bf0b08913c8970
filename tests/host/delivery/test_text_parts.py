"""Long texts in parts: nothing is lost or too long, and cuts are where a reader pauses."""

import re
import time
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.host.delivery.text_parts import split


@for_each(
    ("text", "size", "parts"),
    [
        ("", 10, []),
        ("short", None, ["short"]),
        ("short", 5, ["short"]),
        ("one two three", 7, ["one two", "three"]),
        ("First. Second part.", 12, ["First.", "Second part."]),
        ("a paragraph\n\nand another", 20, ["a paragraph", "and another"]),
        ("一句话。另一句话。", 6, ["一句话。", "另一句话。"]),
        ("x" * 25, 10, ["x" * 10, "x" * 10, "x" * 5]),
    ],
)
def test_a_text_is_split_at_a_pause(text: str, size: int | None, parts: list[str]) -> None:
    assert split(text, size) == parts


def test_no_character_is_split() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    for size in (16, 17, 18, 19, 20):
        for part in split("y" * 14 + family + "z" * 20, size):
            assert not part.startswith("\u200d")
            assert not part.endswith("\u200d")
    for part in split("e\u0301" * 40, 17):
        assert not unicodedata.combining(part[0])


CODE = "Look:\n\n```py\ndef f():\n    if x:\n        return 1\n    return 2\n```\n\nThat is all."


@for_each(
    ("text", "size", "parts"),
    [
        (CODE, 60, ["Look:", "```py\ndef f():\n    if x:\n        return 1\n    return 2\n```", "That is all."]),
        (
            CODE,
            40,
            ["Look:", "```py\ndef f():\n    if x:\n```", "```py\n        return 1\n    return 2\n```", "That is all."],
        ),
        ("~~~\n" + "x" * 30 + "\n~~~", 24, ["~~~\n" + "x" * 16 + "\n~~~", "~~~\n" + "x" * 14 + "\n~~~"]),
        ("```\none\ntwo\nthree", 16, ["```\none\ntwo\n```", "```\nthree"]),
        ("```this``` now, or ```that``` later.", 20, ["```this``` now,", "or ```that``` later."]),
        (
            "Read [the long page of it](https://example.org/a) now",
            44,
            ["Read", "[the long page of it](https://example.org/a)", "now"],
        ),
        ("go to https://example.org/a,b,c,d,e.html now", 30, ["go to", "https://example.org/a,b,c,d,e.", "html now"]),
    ],
)
def test_code_blocks_are_closed_and_opened_again_and_links_stay_whole(text: str, size: int, parts: list[str]) -> None:
    assert split(text, size) == parts
    assert all(len(part) <= size for part in parts)


ANY = st.text(st.characters(exclude_characters="`~"), max_size=300) | st.lists(
    st.sampled_from(
        ["```\n", "```py\n", "~~~\n", "\n", " ", "a line of text\n", "    code\n", "[a](b)", "https://x.y/z", "!"]
    )
).map("".join)


@given(ANY, st.integers(min_value=1, max_value=60))
@example(CODE, 16)
def test_parts_are_never_too_long_or_empty_and_hold_the_whole_text(text: str, size: int) -> None:
    parts = split(text, size)
    assert all(0 < len(part) <= size for part in parts)
    assert bare("".join(parts)) == bare(text)


def bare(text: str) -> str:
    """The text without blanks and the characters of fences: a part may open or close a block."""
    return "".join(re.sub("[`~py]", "", text).split())


@given(ANY.filter(lambda text: "```" in text), st.integers(min_value=24, max_value=60))
def test_every_part_closes_the_blocks_that_it_opens(text: str, size: int) -> None:
    whole = re.sub(r"(?<!\n)(`{3,}|~{3,})", r"\n\1", text)  # each fence on a line of its own
    *parts, _ = split(f"{whole}\n" + "z" * 61, size)
    for part in parts:
        opened = None
        for marker, info in re.findall(r"^(`{3,}|~{3,})([^\n]*)$", part, re.MULTILINE):
            opened = marker if opened is None else None if marker.startswith(opened) and not info.strip() else opened
        assert opened is None, parts


def test_the_time_to_split_grows_with_the_text() -> None:
    for text in ("[" * 500_000, "```\n" * 100_000, "https://a b " * 40_000, "x" * 500_000, "a, b\n" * 100_000):
        started = time.process_time()
        split(text, 64)
        assert time.process_time() - started < 10, text[:8]

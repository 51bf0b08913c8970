"""Long texts in parts: nothing is lost or too long, and cuts are where a reader pauses."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.host.delivery.previews import split


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


@given(st.text(max_size=300), st.integers(min_value=1, max_value=60))
def test_parts_are_never_too_long_or_empty_and_hold_the_whole_text(text: str, size: int) -> None:
    parts = split(text, size)
    assert all(0 < len(part) <= size for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())

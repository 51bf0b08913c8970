"""How a text is cut into chunks."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from bollard.knowledge.chunking import Piece, blocks_of, pieces_of, tokens
from bollard.knowledge.plain_text import Extracted

LINES = st.sampled_from(
    [
        "# One",
        "## Two",
        "### 三级标题",
        "Under\n=====",
        "```python\nprint('# no heading')\n\nx = 1\n```",
        "~~~\nnever closed",
        "| a | b |",
        "|---|---|",
        "",
        "   ",
        "A sentence. Another one! And a third?",
        "知识库把文档切成小块。每一块都有标题和位置！",
        "word " * 60,
        "x" * 400,
        "汉" * 150,
        "- a list item; with more",
    ]
)
TEXTS = st.one_of(st.lists(LINES, max_size=25).map("\n".join), st.text(max_size=400))


def cut(text: str, size: int = 320, overlap: int = 40, *, structured: bool = True) -> list[Piece]:
    return pieces_of(Extracted(text=text, structured=structured), chunk_tokens=size, overlap_tokens=overlap)


@given(TEXTS, st.integers(1, 200), st.integers(0, 100), st.booleans())
def test_every_text_is_chunked_without_loss_and_within_the_size(text: str, size: int, overlap: int, structured: bool):
    pieces = cut(text, size, min(overlap, size // 2), structured=structured)
    covered = bytearray(len(text))
    for piece in pieces:
        assert tokens(text[piece.start : piece.end]) <= size
        covered[piece.start : piece.end] = b"\1" * (piece.end - piece.start)
    assert all(covered[at] or text[at].isspace() for at in range(len(text)))
    for before, after in itertools.pairwise(pieces):
        assert before.start < after.start
        assert before.end < after.end


@given(TEXTS)
def test_blocks_are_in_order_and_leave_out_only_white_space(text: str):
    at = 0
    for block in blocks_of(text, structured=True):
        assert not text[at : block.start].strip()
        assert at <= block.start < block.end
        at = block.end
    assert not text[at:].strip()


@given(st.lists(LINES, max_size=20), st.integers(30, 200))
def test_code_between_fences_stays_whole_if_it_fits(lines: list[str], size: int):
    code = "```sh\nmake run\n\nmake test\n```"
    before = "\n".join(line for line in lines if "~~~" not in line)
    text = f"{before}\n{code}\n\nBehind it."
    start = text.rindex(code)
    assert any(piece.start <= start and piece.end >= start + len(code) for piece in cut(text, size, size // 4))


def test_a_chunk_has_the_headings_above_it():
    text = "# Guide\n\nIntro.\n\n## Install\n\nRun it.\n\n### Windows\n\nNo.\n\n## Use\n\nYes.\n"
    assert [(text[piece.start : piece.end], piece.headings) for piece in cut(text)] == [
        ("# Guide\n\nIntro.", ("Guide",)),
        ("## Install\n\nRun it.", ("Guide", "Install")),
        ("### Windows\n\nNo.", ("Guide", "Install", "Windows")),
        ("## Use\n\nYes.", ("Guide", "Use")),
    ]


def test_a_heading_without_text_joins_the_next_block():
    text = "# Guide\n\n## Install\n\nRun it.\n"
    assert [(piece.start, piece.headings) for piece in cut(text)] == [(0, ("Guide", "Install"))]


def test_underlined_headings_are_headings_and_code_has_none():
    text = "Guide\n=====\n\nText.\n\n```\n# a comment\n```\n"
    assert [piece.headings for piece in cut(text)] == [("Guide",)]


def test_plain_text_has_no_headings():
    assert [piece.headings for piece in cut("# not a heading\ntext", structured=False)] == [()]


def test_chunks_of_one_section_repeat_whole_sentences():
    text = " ".join(f"Sentence number {index} says something about it." for index in range(40))
    pieces = cut(text, 64, 16)
    for before, after in itertools.pairwise(pieces):
        shared = text[after.start : before.end]
        assert shared
        assert tokens(shared) <= 16
        assert shared.strip().startswith("Sentence number")


def test_rows_of_a_table_are_not_split():
    row = "| a cell with some words | another cell with some words |"
    text = "\n".join([row] * 40)
    for piece in cut(text, 48, 8):
        assert set(text[piece.start : piece.end].split("\n")) == {row}


def test_a_chunk_has_one_page_and_no_overlap_with_the_page_before():
    """Short pages would fit into one chunk; a citation would name the first of them."""
    document = Extracted(text="one. uno.\n\ntwo. due.\n\nthree.", structured=False, pages=((0, 1), (11, 2), (22, 4)))
    pieces = pieces_of(document, chunk_tokens=100, overlap_tokens=20)
    assert [(document.text[piece.start : piece.end], piece.page) for piece in pieces] == [
        ("one. uno.", 1),
        ("two. due.", 2),
        ("three.", 4),
    ]


def test_a_page_is_known_by_its_offset():
    document = Extracted(text="one.\n\ntwo.\n\nthree.", structured=False, pages=((0, 1), (6, 2), (12, 4)))
    assert [piece.page for piece in pieces_of(document, chunk_tokens=2, overlap_tokens=0)] == [1, 2, 4]


def test_chinese_counts_by_character_and_english_by_four_letters():
    assert tokens("知识库") == 3
    assert tokens("knowledge") == 3
    assert tokens("") == 0


@given(st.text(max_size=80), st.text(max_size=80))
def test_parts_never_count_less_than_the_whole(one: str, other: str):
    assert tokens(one + other) <= tokens(one) + tokens(other)

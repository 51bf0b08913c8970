"""Text segmentation for search."""

from hypothesis import given
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.segments import QUERY_TERMS, SEARCH_BYTES, WORD_CHARACTERS, clauses, is_prefix, segment, terms


@for_each(
    ("text", "words"),
    [
        ("Hello, World!", "hello world"),
        ("snake_case and kebab-case", "snake case and kebab case"),
        ("会议记录", "会议 议记 记录 录"),
        ("中", "中"),
        ("Café ＡＢＣ１２", "café abc12"),
        ("版本v2发布", "版本 本 v2 发布 布"),
        ("東京タワー", "東京 京タ タワ ワー ー"),
        ("한국어", "한국 국어 어"),
        ("…!?", ""),
        ("", ""),
    ],
)
def test_text_is_segmented_into_words_and_pairs(text, words):
    assert segment(text) == words


@for_each(
    ("query", "expected"),
    [
        ("Hello hello WORLD", ["hello", "world"]),
        ("会议", ["会议"]),
        ("会议记录", ["会议", "议记", "记录"]),
        ("中", ["中"]),
        ('"a" AND b* NEAR(c) OR -d:e', ["a", "and", "b", "near", "c", "or", "d", "e"]),
        ("% _ \\ \" * : ( ) ' ; -- \0", []),
        ("", []),
    ],
)
def test_a_query_is_split_into_terms_and_operators_are_data(query, expected):
    assert terms(query) == expected


@for_each(
    ("query", "expected"),
    [
        ("Hello hello WORLD", [("hello",), ("world",)]),
        ("中", [("中",)]),
        ("会议", [("会议",)]),
        ("杭州划船", [("杭州",), ("杭州", "州划"), ("州划", "划船"), ("划船",)]),
        ("v2发布", [("v2",), ("发布",)]),
        ("%", []),
    ],
)
def test_each_character_of_a_cjk_query_needs_one_of_its_pairs(query, expected):
    assert clauses(query) == expected


def test_only_a_single_cjk_character_is_a_prefix():
    assert [is_prefix(term) for term in ("中", "会议", "a", "ab", "1")] == [True, False, False, False, False]


def test_long_words_and_long_texts_are_limited():
    assert segment("x" * 1000) == "x" * WORD_CHARACTERS
    assert terms("x" * 1000) == ["x" * WORD_CHARACTERS]
    for split in (terms, clauses):
        assert len(split(" ".join(f"w{index}" for index in range(1000)))) == QUERY_TERMS
    for huge in ("会" * 1_000_000, "word " * 400_000, "é " * 600_000, "".join(map(chr, range(0x4E00, 0x9FFF))) * 40):
        assert len(segment(huge).encode()) <= SEARCH_BYTES


@given(st.text(), st.text())
def test_words_contain_only_letters_and_digits(text, query):
    for word in (*segment(text).split(" "), *terms(query)):
        assert word.isalnum() or word == ""


@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=40))
def test_every_text_is_found_by_itself(text):
    words = segment(text).split()
    for term in terms(text):
        assert any(word.startswith(term) if is_prefix(term) else word == term for word in words)

"""The content filter: words of letters are whole words, Chinese words are found inside a text."""

import re
import string

from hypothesis import given
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.host.channels.content_filter import ContentFilter, filtered

WORDS = ("rum", "敏感词", "black flag", "C++ virus")


@for_each(
    ("text", "masked"),
    [
        ("a rum, please", "a ***, please"),
        ("RUM and ｒｕｍ", "*** and ***"),
        ("the drum of a rumour", "the drum of a rumour"),
        ("喝rum吧", "喝***吧"),
        ("这是敏感词吗", "这是***吗"),
        ("这是敏 感*词吗", "这是*****吗"),
        ("敏x感x词", "敏x感x词"),
        ("敏....感词", "敏....感词"),
        ("under a Black Flag", "under a **********"),
        ("rumrum rum rum", "rumrum *** ***"),
        ("㎏ of ﬁn", "㎏ of ﬁn"),
        ("", ""),
    ],
)
def test_a_word_of_the_list_is_masked_where_it_is_a_word(text: str, masked: str) -> None:
    found = filtered(ContentFilter(words=WORDS, outcome="mask"), text)
    assert (found.text, found.outcome) == (masked, "pass" if masked == text else "mask")


def test_a_blocked_text_is_empty_and_a_text_without_a_filter_passes() -> None:
    assert filtered(ContentFilter(words=WORDS), "rum").outcome == "block"
    assert filtered(ContentFilter(words=WORDS), "rum").text == ""
    assert filtered(None, "rum").outcome == "pass"


def test_words_inside_of_each_other_and_overlapping_words_are_masked_whole() -> None:
    rule = ContentFilter(words=("a b", "b", "b c d", "中文", "文字游", "kg"), outcome="mask")
    assert filtered(rule, "a b c d").text == "*******"
    assert filtered(rule, "a b c").text == "*** c"
    assert filtered(rule, "中。文字。游").text == "******"
    assert filtered(rule, "5 ㎏").text == "5 *", "one sign that stands for two letters"


LETTERS = st.text("ab", min_size=1, max_size=4)
PHRASES = st.lists(LETTERS, min_size=1, max_size=3).map(" ".join)
CHINESE = st.text("中文字", min_size=1, max_size=4)


@given(words=st.lists(PHRASES | CHINESE, min_size=1, max_size=8, unique=True), text=st.text("ab 中文字.-", max_size=40))
def test_the_filter_finds_what_a_search_for_each_word_finds(words: list[str], text: str) -> None:
    masked = [*text]
    for word in words:
        pattern = r"[ .-]{0,3}".join(word) if word[0] in "中文字" else rf"(?<![ab]){word}(?![ab])"
        for start in range(len(text)):
            if (found := re.compile(pattern).match(text, start)) is not None:
                masked[start : found.end()] = "*" * (found.end() - start)
    assert filtered(ContentFilter(words=tuple(words), outcome="mask"), text).text == "".join(masked)


@for_each("outcome", ["mask", "block"])
def test_a_text_that_begins_every_word_everywhere_is_filtered(outcome: str) -> None:
    """The time depends on the text alone: a search for each word would take hours."""
    letters = [first + second for first in string.ascii_letters for second in string.ascii_letters[:20]][:1000]
    for beginning, sign in (("中", "。"), ("a", ""), ("a", " ")):
        words = tuple((beginning + sign * (beginning == "中")) * 20 + end for end in letters)
        rule = ContentFilter(words=words, outcome=outcome)  # type: ignore[arg-type]
        text = (beginning + sign) * 80_000
        assert filtered(rule, text).outcome == "pass"
        assert filtered(rule, f"{text[:-1]} {words[0]}").outcome == outcome

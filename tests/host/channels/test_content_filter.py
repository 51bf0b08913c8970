"""The content filter: words of letters are whole words, Chinese words are found inside a text."""

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

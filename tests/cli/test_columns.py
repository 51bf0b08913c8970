"""Columns of a terminal, where a Chinese character takes two."""

from bollard.cli.terminal.columns import line_slices, printable, shorten, width_of, wrap


def test_a_chinese_character_takes_two_columns() -> None:
    assert width_of("ab中文") == 6


def test_lines_break_between_words() -> None:
    assert wrap("one two three", 8) == ["one two", "three"]


def test_lines_break_between_chinese_characters() -> None:
    assert wrap("插件文件夹", 6) == ["插件文", "件夹"]


def test_a_closing_mark_does_not_begin_a_line() -> None:
    assert wrap("插件文。件夹", 6) == ["插件文。", "件夹"]


def test_an_overflowing_closing_mark_moves_with_the_character_before_it() -> None:
    text = "插件文。件夹"
    assert [text[start:end] for start, end in line_slices(text, 6)] == ["插件", "文。件", "夹"]


def test_a_word_longer_than_a_line_has_its_own_line() -> None:
    assert wrap("a looooooong b", 6) == ["a", "looooooong", "b"]


def test_an_empty_text_is_one_empty_line() -> None:
    assert wrap("", 10) == [""]


def test_wrapping_loses_no_word() -> None:
    text = "The plugin 插件 runs，in a worker process 工作进程 of its own."
    assert "".join("".join(wrap(text, 9)).split()) == "".join(text.split())


def test_control_characters_never_reach_the_terminal() -> None:
    assert printable("a\x1b[31mb\x07\x9bc\td\n") == "a\ufffd[31mb\ufffd\ufffdc\td\n"


def test_a_long_line_is_shortened_with_an_ellipsis() -> None:
    assert shorten("one\ntwo   three", 100) == "one two three"
    assert shorten("abcdef", 4) == "abc…"

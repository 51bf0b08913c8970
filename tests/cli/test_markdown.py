"""Markdown on a terminal, rendered line by line while it arrives."""

from hypothesis import example, given
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.cli.terminal.columns import width_of
from bollard.cli.terminal.markdown import MarkdownStream
from bollard.cli.terminal.styles import Styles

STYLED = Styles(attributes=True, colours=True)
PLAIN = Styles(attributes=False, colours=False)
BOLD, DIM, ITALIC, LINE, CODE, END = "\x1b[1m", "\x1b[2m", "\x1b[3m", "\x1b[4m", "\x1b[36m", "\x1b[0m"


def lines_of(source: str, columns: int = 60, styles: Styles = STYLED, piece: int = 1000) -> list[str]:
    stream = MarkdownStream(styles, columns)
    lines: list[str] = []
    for start in range(0, len(source), piece):
        lines += stream.feed(source[start : start + piece])
    return lines + stream.finish()


CASES = {
    "a heading": ("## The plan", [f"{BOLD}The plan{END}"]),
    "bold, italic and code": ("a **b** *c* `d_e_f`", [f"a {BOLD}b{END} {ITALIC}c{END} {CODE}d_e_f{END}"]),
    "bold in Chinese": ("这是**重点**。", [f"这是{BOLD}重点{END}。"]),
    "a product": ("2 * 3 * 4 and 5*6*7", ["2 * 3 * 4 and 5*6*7"]),
    "a name with underscores": ("snake_case_name", ["snake_case_name"]),
    "a marker that is never closed": ("a **b", ["a **b"]),
    "an escaped marker": (r"\*a\*", ["*a*"]),
    "a link": ("[docs](https://a.b)", [f"{LINE}docs{END}{DIM} (https://a.b){END}"]),
    "a link that is its label": ("[https://a.b](https://a.b)", [f"{LINE}https://a.b{END}"]),
    "lists": ("- a\n  1. b\n* c", ["• a", "  1. b", "• c"]),
    "a quotation": ("> a", [f"{DIM}│{END} {DIM}a{END}"]),
    "a rule": ("a\n\n---\nb", ["a", "", f"{DIM}{'─' * 40}{END}", "b"]),
    "repeated empty lines": ("\n\na\n\n\n\nb\n", ["a", "", "b"]),
    "code": ("```py\na **b**\n\n  c\n```\nd", [f"{CODE}  a **b**{END}", f"{CODE}  {END}", f"{CODE}    c{END}", "d"]),
    "a table": ("|a|b|\n|-|-|\n|中文|`x`|\n\nc", [f"{BOLD}a     b{END}", f"中文  {CODE}x{END}", "", "c"]),
    "no table": ("|a|b|\nc", ["|a|b|", "c"]),
    "control characters": ("a\x1b[2Jb\tc", ["a\ufffd[2Jb    c"]),
}


@for_each("name", list(CASES))
def test_markdown_is_rendered(name: str) -> None:
    source, lines = CASES[name]
    assert lines_of(source) == lines


def test_a_table_that_is_too_wide_is_shown_by_rows() -> None:
    table = "| name | what it does |\n|---|---|\n| one | something long |\n| two | another thing |\n"
    assert lines_of(table, columns=18) == [
        "name: one",
        "what it does:",
        "something long",
        "",
        "name: two",
        "what it does:",
        "another thing",
        "",
    ]


def test_full_lines_are_printed_before_the_paragraph_ends() -> None:
    stream = MarkdownStream(STYLED, 20)
    assert stream.feed("one **two three") == []
    assert stream.tail == f"one {BOLD}two three{END}"
    assert stream.feed(" four** five six") == [f"one {BOLD}two three four{END}"]
    assert stream.tail == "five six"
    assert stream.finish() == ["five six"]


def test_further_lines_of_an_item_are_indented() -> None:
    assert lines_of("- one two three four\n", columns=12) == ["• one two", "  three four"]


def test_a_link_in_pieces_is_not_torn() -> None:
    source = "see the page [with the long name](https://example.com/a/b) for more"
    assert lines_of(source, columns=30, piece=1) == lines_of(source, columns=30)


def test_a_word_longer_than_a_line_is_split() -> None:
    assert lines_of("x" * 25, columns=10) == ["x" * 10, "x" * 10, "x" * 5]


def test_without_styles_the_source_is_only_wrapped() -> None:
    assert lines_of("# a\n**b** `c`\n- d e f", columns=10, styles=PLAIN) == ["# a", "**b** `c`", "- d e f"]


def test_a_new_width_applies_to_later_lines() -> None:
    stream = MarkdownStream(STYLED, 10)
    assert stream.feed("one two three ") == ["one two"]
    stream.resize(20)
    assert stream.feed("four five six") == []
    assert stream.finish() == ["three four five six"]


@example(source=" -#(`_(-`#_]", piece=6, columns=10)  # a space before a word that is longer than a line
@given(
    source=st.text(alphabet="ab *_`[]()|#>-\\\n中，。", max_size=120),
    piece=st.integers(1, 9),
    columns=st.integers(10, 40),
)
def test_no_line_is_wider_than_the_terminal_and_no_letter_is_lost(source: str, piece: int, columns: int) -> None:
    lines = lines_of(source, columns=columns, styles=PLAIN, piece=piece)
    assert all(width_of(line) <= columns for line in lines)
    assert "".join("".join(lines).split()) == "".join(source.split())


@given(source=st.text(alphabet="ab *_`[]()|#>-\\\n中，。", max_size=120), piece=st.integers(1, 9))
def test_letters_survive_every_marker(source: str, piece: int) -> None:
    letters = "".join(character for character in source if character in "ab中")
    shown = "".join(lines_of(source, columns=12, styles=Styles(attributes=True, colours=False), piece=piece))
    assert [character for character in shown if character in "ab中"] == [*letters]

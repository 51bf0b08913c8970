"""The line that shows a found message."""

from tests.tables import for_each

from bollard.host.http.resources.conversations import SNIPPET_CHARACTERS, match_of, snippet_of
from bollard.segments import clauses


@for_each(
    ("query", "text", "snippet"),
    [
        ("tea", "Tea\n  for two", "Tea for two"),
        ("发布", "版本v2发布", "版本v2发布"),
        ("it", f"{'with ' * 20}it ends", f"…{'with ' * 8}it ends"),
        ("abc", f"{'x ' * 200}ＡＢＣ", f"{'x ' * (SNIPPET_CHARACTERS // 2)}".rstrip() + "…"),
        ("tea", f"tea {'x' * 300}", f"tea {'x' * (SNIPPET_CHARACTERS - 4)}…"),
    ],
)
def test_a_snippet_is_one_line_around_the_first_whole_word(query, text, snippet):
    assert snippet_of(text, match_of(clauses(query))) == snippet

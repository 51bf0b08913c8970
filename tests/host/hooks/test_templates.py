"""Templates of routes: every request has a result, and no result is without bound."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.host.hooks.limits import NAME_CHARACTERS
from bollard.host.hooks.templates import parse_template, render_name, render_text, render_value

VALUES: dict[str, Any] = {
    "body": {"issue": {"number": 7, "title": "It breaks", "labels": [{"name": "bug"}], "open": True, "none": None}},
    "headers": {"x-github-event": "issues"},
    "query": {"team": "north"},
}


@for_each(
    ("template", "text"),
    [
        ("plain", "plain"),
        ("{body.issue.title}", "It breaks"),
        ("#{body.issue.number}: {body.issue.title}", "#7: It breaks"),
        ("{body.issue.labels.0.name}", "bug"),
        ("{body.issue.labels.1.name|none}", "none"),
        ("{body.issue.labels.-1.name}", ""),
        ("{body.issue.labels}", '[{"name":"bug"}]'),
        ("{body.issue.open}", "true"),
        ("{body.issue.none|nobody}", "nobody"),
        ("{body.issue.title.length|text has no parts}", "text has no parts"),
        ("{body.absent}", ""),
        ("{body.absent|a default: with marks}", "a default: with marks"),
        ("{headers.X-GitHub-Event}", "issues"),
        ("{headers.absent|-}", "-"),
        ("{query.team}", "north"),
        ("{{literal}} {body.issue.number}", "{literal} 7"),
    ],
)
def test_a_template_becomes_text(template: str, text: str) -> None:
    assert render_text(template, VALUES, 1000) == text


@for_each(
    "template",
    [
        *("{", "}", "{body", "body}", "{}", "{body.x" * 2, "{body.x}" * 65),
        *("{secret}", "{body..x}", "{headers}", "{query.a.b}", "{env.HOME}"),
    ],
)
def test_a_template_that_is_none_is_refused(template: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- the validator's own error
        parse_template(template)


def test_a_single_placeholder_keeps_the_type_of_its_value() -> None:
    assert render_value("{body.issue.number}", VALUES, 100) == 7
    assert render_value("{body.issue.labels}", VALUES, 100) == [{"name": "bug"}]
    assert render_value("{body.issue.none}", VALUES, 100) is None
    assert render_value("n {body.issue.number}", VALUES, 100) == "n 7"
    assert render_value("{body.issue.title}", VALUES, 2) == "It"


def test_a_long_text_is_cut_at_a_character() -> None:
    assert render_text("{body.t}", {"body": {"t": "é" * 10}}, 5) == "éé"


def test_two_long_ids_stay_two() -> None:
    long = "x" * 1000
    first, second = (render_name("{body.id}", {"body": {"id": long + end}}) for end in "ab")
    assert first is not None
    assert second is not None
    assert first != second
    assert len(first) <= NAME_CHARACTERS


@for_each("value", ["a\0b", "\ud800", "  ", "", None, [], {}])
def test_an_odd_id_is_storable_or_absent(value: Any) -> None:
    name = render_name("{body.id}", {"body": {"id": value}})
    assert name is None or ("\0" not in name and name.encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(template=st.text(alphabet="{}|.ab01bodyheaders query", max_size=40), body=JSON)
def test_a_template_is_refused_when_it_is_saved_or_has_a_bounded_result(template: str, body: Any) -> None:
    try:
        parse_template(template)
    except ValueError:
        return
    values = {"body": body, "headers": {}, "query": {}}
    assert len(render_text(template, values, 50).encode()) <= 50
    name = render_name(template, values)
    assert name is None or 0 < len(name) <= NAME_CHARACTERS
    render_value(template, values, 50)

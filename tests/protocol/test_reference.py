"""The reference documents every code, limit, action, method and shape of the code, and nothing else."""

import json
import re
from pathlib import Path

import pytest
from tests.tables import for_each

from bollard.protocol import (
    ACTIONS,
    ERROR_CODES,
    ERROR_MEANINGS,
    EVENT_TYPES,
    FAILURE_CODES,
    FAILURE_MEANINGS,
    METHODS,
    limits,
)
from bollard.protocol import status_of_failure as status_of
from bollard.protocol.context import EVENT_MEANINGS
from bollard.protocol.export import LIMITS, SHAPES, unit_of

PAGES = ["channel.md", "errors.md", "limits.md", "run-api.md", "shapes.md"]


@pytest.fixture(scope="session")
def reference(repository: Path) -> Path:
    return repository / "docs" / "reference"


def sections(page: str, level: int) -> dict[str, str]:
    """The text below each heading of this level, by heading."""
    mark = "#" * level
    parts = re.split(rf"^{mark} (.+)$", page, flags=re.MULTILINE)
    bodies = [re.split(rf"^#{{1,{level}}} ", body, flags=re.MULTILINE)[0] for body in parts[2::2]]
    return dict(zip((heading.strip("`") for heading in parts[1::2]), bodies, strict=True))


def plain(text: str) -> str:
    return " ".join(re.sub(r"[`*\[\]]", "", text).split())


@pytest.mark.parametrize(
    ("heading", "codes", "meanings"),
    [("Error codes", ERROR_CODES, ERROR_MEANINGS), ("Run failure codes", FAILURE_CODES, FAILURE_MEANINGS)],
)
def test_every_code_has_its_heading_meaning_and_advice(heading, codes, meanings, reference) -> None:
    chapter = sections((reference / "errors.md").read_text(encoding="utf-8"), 2)
    documented = sections(chapter[heading], 3)
    assert tuple(documented) == codes
    for code, text in documented.items():
        first_clause = re.split(r"[;,]", meanings[code])[0]
        assert first_clause.lower() in plain(text).lower(), code
        assert "**When:**" in text, code
        assert "**Do:**" in text, code


def test_every_failure_names_its_status(reference) -> None:
    chapter = sections((reference / "errors.md").read_text(encoding="utf-8"), 2)["Run failure codes"]
    for code, text in sections(chapter, 3).items():
        assert f"Status `{status_of(code)}`." in text, code


def test_every_limit_has_its_row_with_value_unit_and_meaning(reference) -> None:
    page = (reference / "limits.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+)(?: \([^)]*\))? \| ([\w ]+) \| (.+) \|$", page, flags=re.MULTILINE)
    documented = [(name, float(value), unit, meaning) for name, value, unit, meaning in rows]
    assert documented == [
        (name, float(getattr(limits, name)), unit_of(name), meaning) for name, meaning in LIMITS.items()
    ]


def test_every_action_has_its_heading_shapes_and_permission(reference) -> None:
    documented = sections((reference / "run-api.md").read_text(encoding="utf-8"), 3)
    assert list(documented) == list(ACTIONS)
    for name, action in ACTIONS.items():
        text = plain(documented[name])
        assert f"Params {action.params.__name__}(" in text, name
        assert f"Answer{', streamed:' if action.streamed else ''} {action.result.__name__}(" in text, name
        if action.permission is None:
            assert "No permission key:" in text, name
        else:
            key, value = action.permission
            assert f"Permission {key}: {value}" in text or (value is None and f"Permission {key}: the value" in text), (
                name
            )


def test_every_method_has_its_heading_sender_and_shapes(reference) -> None:
    chapters = sections((reference / "channel.md").read_text(encoding="utf-8"), 2)
    assert list(chapters) == ["Sent by the host", "Sent by the worker", "Violations"]
    for sender in ("host", "worker"):
        documented = sections(chapters[f"Sent by the {sender}"], 3)
        methods = {name: method for name, method in METHODS.items() if method.sent_by == sender}
        assert list(documented) == list(methods)
        for name, method in methods.items():
            text = plain(documented[name])
            assert text.startswith("Notification." if method.result is None else "Request."), name
            assert f"Params {method.params.__name__}(" in text, name
            if method.result is not None and name != "api/call":
                assert f"result {method.result.__name__}(" in text, name


@for_each("page", PAGES)
def test_every_link_has_a_target(page, reference) -> None:
    text = (reference / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        linked = reference / path if path else reference / page
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}, target


@for_each("page", PAGES)
def test_a_link_to_a_schema_names_its_shape(page, reference) -> None:
    text = (reference / page).read_text(encoding="utf-8")
    for label, name in re.findall(r"\[([^\]]+)\]\(schema/([A-Z]\w+)\.json\)", text):
        assert name in SHAPES
        assert label == name or "." in label, label


@for_each("page", PAGES)
def test_every_mentioned_limit_exists(page, reference) -> None:
    text = (reference / page).read_text(encoding="utf-8")
    assert set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", text)) - {"BOLLARD_CHANNEL_FD"} <= set(LIMITS)


def test_every_event_type_has_its_row_and_its_entry_in_the_schemas(reference) -> None:
    page = (reference / "shapes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z_.]+)` \| (.+) \|$", page, re.MULTILINE)
    listed = json.loads((reference / "schema/events.json").read_text(encoding="utf-8"))["events"]
    assert tuple(EVENT_MEANINGS) == EVENT_TYPES
    assert [row for row in rows if row[0] in EVENT_TYPES] == [*EVENT_MEANINGS.items()]
    assert [(each["name"], each["meaning"]) for each in listed] == [*EVENT_MEANINGS.items()]

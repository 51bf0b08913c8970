"""Validation of events: accepted values, refused values, and empty names."""

from typing import Any

import pytest
from tests.new_events import new_event
from tests.tables import for_each

from bollard.host.errors import InvalidRequest
from bollard.host.limits import EVENT_NAME_CHARACTERS, KEY_BYTES
from bollard.host.runs.event import NewEvent

OPTIONAL = ["bot", "conversation", "thread", "actor_id", "subject_id"]
SHOWN = ["actor_type", "actor_name", "subject_type"]


def event(**fields: Any) -> NewEvent:
    return new_event(**{"source": "web", "source_id": "1", "event_type": "message.received", **fields})


def named(found: NewEvent, name: str) -> Any:
    return getattr(found.scope, name, None) or getattr(found, name, None)


@for_each("name", OPTIONAL)
def test_an_empty_name_is_absent(name: str) -> None:
    assert named(event(**{name: ""}), name) is None
    assert event(**{name: ""}) == event()
    assert named(event(**{name: "x"}), name) == "x"


@for_each("name", ["source", "source_id", "event_type", *OPTIONAL])
def test_a_name_has_a_maximum_length(name: str) -> None:
    for longest in ("x" * EVENT_NAME_CHARACTERS, "汉" * (KEY_BYTES // 3), "𓂀" * (KEY_BYTES // 4)):
        assert named(event(**{name: longest}), name) == longest
        with pytest.raises(InvalidRequest) as caught:
            event(**{name: longest + longest[0]})
        assert (caught.value.details["field"], name in caught.value.message) == (name, True)
        assert caught.value.hint


@pytest.mark.parametrize("name", ["source", "source_id", "event_type"])
def test_an_empty_source_or_id_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        event(**{name: ""})


@for_each("name", ["source", "source_id", "event_type", *OPTIONAL, *SHOWN])
def test_a_name_with_a_null_character_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        event(**{name: "a\0b"})
    assert caught.value.details["field"] == name


def test_an_event_accepted_under_older_rules_reads_back_the_same() -> None:
    kept = event(conversation="a\0b", source_id="汉" * EVENT_NAME_CHARACTERS, known=True)
    assert NewEvent.from_record(kept.record("evt_1", None), "default") == ("evt_1", kept)


def test_an_event_reads_back_from_its_record() -> None:
    said = event(bot="b", conversation="room", thread="", actor_type="user", actor_id="u", text="hello")
    assert NewEvent.from_record(said.record("evt_1", None), "default") == ("evt_1", said)


def deep(levels: int) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for _ in range(levels):
        data = {"in": data}
    return data


@for_each(
    ("data", "fine"),
    [
        (deep(40), True),
        (deep(60), False),
        ({"many": [1] * 7900}, True),
        ({"many": [1] * 8100}, False),
        ({"flat": [{"n": 1}] * 100}, True),
    ],
)
def test_data_that_is_too_large_for_a_worker_is_refused_at_the_edge(data: dict[str, Any], fine: bool) -> None:
    if fine:
        assert new_event(source="s", source_id="i", event_type="t", data=data).data == data
        return
    with pytest.raises(InvalidRequest) as refused:
        new_event(source="s", source_id="i", event_type="t", data=data)
    assert (refused.value.details["field"], bool(refused.value.hint)) == ("data", True)


def test_contents_that_are_too_large_beside_the_data_are_refused_at_the_edge() -> None:
    elements = ({"type": "text", "text": "x"},) * 650
    made = event(contents=elements, data={"values": [0] * 1000})
    assert len(made.contents) == 650
    with pytest.raises(InvalidRequest) as caught:
        event(contents=elements, data={"values": [0] * 7990})
    assert caught.value.details["field"] == "data"
    with pytest.raises(InvalidRequest) as caught:
        event(contents=elements * 2)
    assert caught.value.details["field"] == "input.contents"

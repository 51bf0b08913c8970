"""One event at the edge: what is taken, what is refused, and what an empty name means."""

from typing import Any

import pytest

from bollard.host.errors import InvalidRequest
from bollard.host.limits import EVENT_NAME_CHARACTERS
from bollard.host.runs.event import NewEvent

OPTIONAL = ["bot", "conversation", "thread", "actor_id", "subject_id"]


def event(**fields: Any) -> NewEvent:
    return NewEvent(**{"source": "web", "source_id": "1", "event_type": "message.received", **fields})


@pytest.mark.parametrize("name", OPTIONAL)
def test_an_empty_name_is_no_name(name: str) -> None:
    assert getattr(event(**{name: ""}), name) is None
    assert event(**{name: ""}) == event()
    assert getattr(event(**{name: "x"}), name) == "x"


@pytest.mark.parametrize("name", ["source", "source_id", "event_type", *OPTIONAL])
def test_a_name_is_bounded(name: str) -> None:
    longest = "汉" * EVENT_NAME_CHARACTERS
    assert getattr(event(**{name: longest}), name) == longest
    with pytest.raises(InvalidRequest) as caught:
        event(**{name: longest + "x"})
    assert (caught.value.details["field"], name in caught.value.message) == (name, True)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["source", "source_id", "event_type"])
def test_what_names_the_event_is_not_empty(name: str) -> None:
    with pytest.raises(InvalidRequest):
        event(**{name: ""})


@pytest.mark.parametrize("name", ["source", "source_id", "event_type"])
def test_what_names_the_event_can_be_found_again_in_every_store(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        event(**{name: "a\0b"})
    assert caught.value.details["field"] == name


def test_an_event_is_read_back_from_its_record() -> None:
    said = event(bot="b", conversation="room", thread="", actor_type="user", actor_id="u", text="hello")
    assert NewEvent.from_record(said.record("evt_1", None)) == ("evt_1", said)


def deep(levels: int) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for _ in range(levels):
        data = {"in": data}
    return data


@pytest.mark.parametrize(
    ("data", "fine"),
    [
        (deep(40), True),
        (deep(60), False),
        ({"many": [1] * 7900}, True),
        ({"many": [1] * 8100}, False),
        ({"flat": [{"n": 1}] * 100}, True),
    ],
)
def test_data_that_no_worker_could_be_sent_is_refused_at_the_edge(data: dict[str, Any], fine: bool) -> None:
    if fine:
        assert NewEvent(source="s", source_id="i", event_type="t", data=data).data == data
        return
    with pytest.raises(InvalidRequest) as refused:
        NewEvent(source="s", source_id="i", event_type="t", data=data)
    assert (refused.value.details["field"], bool(refused.value.hint)) == ("data", True)

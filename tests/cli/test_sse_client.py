"""Server-sent events, cut from bytes."""

import pytest

from bollard.cli.sse_client import EventParser, ServerEvent

STREAM = (
    b'id: 1.1\nevent: run.created\ndata: {"a":1}\n\n'
    b": alive\n\n"
    b'id: 1.2\r\nevent: message.delta\r\ndata: {"b":"\xe4\xbd\xa0"}\r\n\r\n'
    b"event: gap\ndata: one\ndata: two\n\n"
    b"data:bare\n\n"
    b"id: 1.9\nevent: cut off"
)
EVENTS = [
    ServerEvent(id="1.1", type="run.created", data='{"a":1}'),
    ServerEvent(id="1.2", type="message.delta", data='{"b":"你"}'),
    ServerEvent(id=None, type="gap", data="one\ntwo"),
    ServerEvent(id=None, type="message", data="bare"),
]


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 17, 10_000])
def test_events_are_found_wherever_the_stream_was_cut(cut: int) -> None:
    parser = EventParser()
    found = [event for at in range(0, len(STREAM), cut) for event in parser.feed(STREAM[at : at + cut])]
    assert found == EVENTS


def test_an_event_without_data_is_none() -> None:
    assert EventParser().feed(b"id: 1.1\nevent: x\n\n") == []


def test_fields_of_one_event_do_not_reach_the_next() -> None:
    assert EventParser().feed(b"id: 7\nevent: x\n\ndata: y\n\n") == [ServerEvent(id=None, type="message", data="y")]

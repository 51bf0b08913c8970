"""Server-sent events out of bytes, at any cut."""

import pytest
from tests.tables import for_each

from bollard.host.egress.connections import NotAnswered
from bollard.host.egress.sse import SseDecoder, SseEvent

EVENT_BYTES = 4096
STREAM = (
    "\ufeff: a comment\r\n"
    'event: first\r\ndata: {"a": "é世界🎈"}\r\n\r\n'
    "id: 7\nretry: 10\n\n"
    "data: one\ndata:two\ndata:  three\n\n"
    "data: with carriage returns\r\rdata\r\n\r\n"
    "id: 1.2\nevent: with an id\ndata: x\n\n"
    "data: [DONE]\n\n"
).encode()
EVENTS = [
    SseEvent("first", '{"a": "é世界🎈"}'.encode()),
    SseEvent("", b"one\ntwo\n three"),
    SseEvent("", b"with carriage returns"),
    SseEvent("with an id", b"x", "1.2"),
    SseEvent("", b"[DONE]"),
]


@for_each("size", [1, 2, 3, 5, 7, 64, 1000])
def test_a_stream_gives_the_same_events_in_pieces_of_any_size(size: int) -> None:
    decoder = SseDecoder(EVENT_BYTES)
    found = [event for at in range(0, len(STREAM), size) for event in decoder.feed(STREAM[at : at + size])]
    assert [*found, *decoder.end()] == EVENTS


def test_an_event_is_complete_at_its_last_byte() -> None:
    decoder = SseDecoder(EVENT_BYTES)
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\n") == [SseEvent("", b"a")]
    assert decoder.feed(b"data: b\r\r") == [SseEvent("", b"b")], "a line feed may follow, and is not waited for"
    assert decoder.feed(b"\ndata: c\n\n") == [SseEvent("", b"c")]


def test_the_rest_of_the_stream_at_the_end_is_an_event() -> None:
    decoder = SseDecoder(EVENT_BYTES)
    assert decoder.feed(b"data: a\n\ndata: [DO") == [SseEvent("", b"a")]
    assert decoder.feed(b"NE]") == []
    assert decoder.end() == [SseEvent("", b"[DONE]")]
    assert decoder.end() == []


def feed_bytewise(decoder: SseDecoder, stream: bytes) -> None:
    for at in range(len(stream)):
        decoder.feed(stream[at : at + 1])


def test_an_event_has_a_maximum_size_including_comments() -> None:
    for stream in (b"data: " + b"x" * 100, b"data: x\n" * 50, b": " + b"comment" * 20):
        with pytest.raises(NotAnswered, match="larger than 64") as told:
            feed_bytewise(SseDecoder(event_bytes=64), stream)
        assert told.value.reason == "invalid"


def test_consecutive_comments_do_not_count_as_one_event() -> None:
    decoder = SseDecoder(event_bytes=64)
    for _ in range(100):
        assert decoder.feed(b": still here\n\n") == []
    assert decoder.feed(b"data: x\n\n") == [SseEvent("", b"x")]


def test_an_event_without_data_is_skipped_and_its_fields_do_not_reach_the_next() -> None:
    assert SseDecoder(EVENT_BYTES).feed(b"id: 7\nevent: x\n\ndata: y\n\n") == [SseEvent("", b"y")]


def test_an_id_with_a_null_character_is_ignored() -> None:
    assert SseDecoder(EVENT_BYTES).feed(b"id: a\0b\ndata: y\n\n") == [SseEvent("", b"y")]

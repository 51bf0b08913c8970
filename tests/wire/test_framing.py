"""Lines in a byte stream: the same frames for any chunking, and memory of at most one frame."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bollard.wire import FrameError
from bollard.wire.stream import LineFramer

LIMIT = 16
lines = st.lists(st.binary(max_size=24).map(lambda line: line.replace(b"\n", b"")), max_size=12)


def shown(frames: list[bytes | FrameError]) -> list[bytes | str]:
    return [frame.fault if isinstance(frame, FrameError) else frame for frame in frames]


def cut(stream: bytes, data: st.DataObject) -> list[bytes]:
    places = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=20)))
    return [stream[start:end] for start, end in zip([0, *places], [*places, len(stream)], strict=True)]


@settings(deadline=None)
@given(sent=lines, data=st.data())
def test_any_cut_of_the_stream_gives_the_same_frames(sent: list[bytes], data: st.DataObject) -> None:
    framer = LineFramer(LIMIT)
    seen: list[bytes | str] = []
    for piece in cut(b"".join(line + b"\n" for line in sent), data):
        seen += shown(framer.feed(piece))
        assert framer.held_bytes <= LIMIT
    assert seen == [line if len(line) <= LIMIT else "oversized" for line in sent]
    assert framer.end() is None


@settings(deadline=None)
@given(sent=lines, rest=st.binary(min_size=1, max_size=40).map(lambda rest: rest.replace(b"\n", b"x")), data=st.data())
def test_the_end_of_the_stream_inside_a_frame_is_reported(sent: list[bytes], rest: bytes, data: st.DataObject) -> None:
    framer = LineFramer(LIMIT)
    seen: list[bytes | str] = []
    for piece in cut(b"".join(line + b"\n" for line in sent) + rest, data):
        seen += shown(framer.feed(piece))
    cut_off = framer.end()
    assert cut_off is not None
    assert cut_off.fault == "half_frame"
    assert seen.count("oversized") == sum(len(line) > LIMIT for line in [*sent, rest])


@pytest.mark.requirement("P11-46")
def test_an_endless_line_is_reported_once_and_uses_no_memory() -> None:
    framer = LineFramer(1000)
    seen: list[bytes | FrameError] = []
    for _ in range(10_000):
        seen += framer.feed(b"x" * 100)
        assert framer.held_bytes <= 1000
    assert shown(seen) == ["oversized"]
    assert shown(framer.feed(b"x\n{}\n")) == [b"{}"]


def test_a_line_of_exactly_the_limit_is_a_frame_and_one_more_byte_is_not() -> None:
    framer = LineFramer(LIMIT)
    assert shown(framer.feed(b"x" * LIMIT + b"\n" + b"y" * (LIMIT + 1) + b"\n" + b"z\n")) == [
        b"x" * LIMIT,
        "oversized",
        b"z",
    ]
    assert framer.feed(b"x" * LIMIT) == []
    assert shown(framer.feed(b"\n")) == [b"x" * LIMIT]
    assert framer.feed(b"x" * LIMIT) == []
    assert shown(framer.feed(b"x")) == ["oversized"]
    assert framer.feed(b"x") == []
    assert shown(framer.feed(b"\n\n")) == [b""]


def test_a_large_frame_in_single_bytes_takes_linear_time() -> None:
    # With a copy of the tail for each byte this would move half a terabyte and never end.
    framer = LineFramer(1 << 20)
    byte = b"x"
    for _ in range(1 << 20):
        assert not framer.feed(byte)
    assert [len(frame) for frame in framer.feed(b"\n") if isinstance(frame, bytes)] == [1 << 20]

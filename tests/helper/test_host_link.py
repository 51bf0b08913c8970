"""The helper's side: whole messages are read at any cut of the stream, and none is lost to another wait."""

import random
import socket

import pytest

from bollard.helper.host_link import READ_BYTES, FrameReader, HostGone, HostLink, framed


def test_frames_are_read_at_any_cut_of_the_stream() -> None:
    dice = random.Random(7)
    bodies = [dice.randbytes(dice.choice([0, 1, 3, 200, 70_000, 300_000])) for _ in range(60)]
    stream = b"".join(framed(body) for body in bodies)
    for most in (1, 3, 5, 1000, READ_BYTES, len(stream)):
        reader = FrameReader()
        found: list[bytes] = []
        start = 0
        while start < len(stream):
            size = most if most < 10 and start < 5000 else dice.randint(1, max(most, 1000))
            found += reader.feed(stream[start : start + size])
            start += size
        assert found == bodies


def test_an_oversized_frame_is_refused_by_its_length() -> None:
    reader = FrameReader(frame_bytes=100_000)
    assert reader.feed(framed(b"x" * 100_000)) == [b"x" * 100_000]
    with pytest.raises(ValueError, match="100000 are the most"):
        reader.feed(framed(b"x" * 100_001)[:10])
    with pytest.raises(ValueError, match="100000 are the most"):
        FrameReader(frame_bytes=100_000).feed(framed(b"a") + b"\xff\xff\xff\xff")


def test_messages_before_the_expected_one_are_read_later() -> None:
    host, helper = socket.socketpair()
    with host, helper:
        link = HostLink(helper, lambda body: int(body) if body.isdigit() else body.decode())
        host.sendall(b"".join(framed(body) for body in (b"a", b"1", b"b", b"2")))
        assert link.expect(int) == 1
        assert link.hear() == ["a", "b", 2]
        assert link.hear(0.0) == []
        link.say(b"said")
        assert FrameReader().feed(host.recv(100)) == [b"said"]


def test_a_lost_host_is_noticed_when_reading_and_when_writing() -> None:
    host, helper = socket.socketpair()
    with helper:
        link = HostLink(helper, bytes.decode)
        host.sendall(framed(b"last") + b"\x00\x00")
        host.close()
        assert link.hear() == ["last"]
        with pytest.raises(HostGone):
            link.hear()
        with pytest.raises(HostGone):
            link.say(b"x")

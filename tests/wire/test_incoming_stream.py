"""Chunks of a streamed call on the worker's side: a violation of order or window ends the stream."""

import pytest
from tests.doubles.memory_transport import memory_pair

from bollard.protocol import limits
from bollard.wire import FrameError, Peer
from bollard.wire.worker_run import IncomingStream


class Deaf:
    """A service that wants nothing."""

    def quick(self, frame):
        return False

    def called(self, call): ...

    def noted(self, note, size): ...

    def faulted(self, fault): ...

    def batch_ended(self): ...

    def closed(self, reason): ...


@pytest.fixture
async def stream() -> IncomingStream:
    transport, _ = memory_pair()
    return IncomingStream(Peer(transport, Deaf()), "1")


async def test_chunks_are_read_in_order_before_the_end(stream):
    stream.chunk(1, "a", 10)
    stream.chunk(2, "b", 10)
    stream.end()
    assert [await stream.next(), await stream.next(), await stream.next()] == [(True, "a"), (True, "b"), (False, None)]


@pytest.mark.parametrize("index", [1, 3, 9])
async def test_a_chunk_out_of_order_ends_the_stream_after_the_valid_ones(stream, index):
    stream.chunk(1, "a", 10)
    stream.chunk(index, "again or too early", 10)
    assert await stream.next() == (True, "a")
    with pytest.raises(FrameError, match="out of order"):
        await stream.next()


async def test_a_host_that_ignores_the_window_ends_the_stream_without_more_memory(stream):
    for index in range(1, limits.STREAM_WINDOW_CHUNKS + 1000):
        stream.chunk(index, index, 10)
    taken = [(await stream.next())[1] for _ in range(limits.STREAM_WINDOW_CHUNKS)]
    assert taken == list(range(1, limits.STREAM_WINDOW_CHUNKS + 1))
    with pytest.raises(FrameError, match="credit"):
        await stream.next()

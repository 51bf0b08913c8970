"""The worker connection over an accepted WebSocket: frame order, back-pressure, and readers that stall."""

import asyncio
from typing import Any

import pytest
from starlette.websockets import WebSocket

from bollard.host.http.streams.socket_transport import SocketTransport
from bollard.wire import ChannelClosed, FrameError
from bollard.wire.limits import WRITE_HARD_LIMIT_BYTES, WRITE_HIGH_WATER_BYTES

PATIENCE_S = 120.0


class Line:
    """The server's side of a WebSocket in memory: a test puts incoming messages in and takes outgoing ones out."""

    def __init__(self) -> None:
        self.coming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.left: list[dict[str, Any]] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.taken = 0

    async def receive(self) -> Any:
        message = await self.coming.get()
        self.taken += 1
        return message

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        self.left.append(message)

    @property
    def texts(self) -> list[str]:
        return [message["text"] for message in self.left if message["type"] == "websocket.send"]


class Heard:
    """Records the received frames."""

    def __init__(self) -> None:
        self.frames: list[Any] = []
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def frames_received(self, frames: list[Any]) -> None:
        assert not self.lost.done(), "nothing comes after the loss"
        self.frames += frames

    def connection_lost(self, reason: str) -> None:
        self.lost.set_result(reason)


@pytest.fixture
async def open_line() -> Any:
    """A line that is accepted, its transport, and who listens; the carrying ends with the test."""
    line = Line()
    line.coming.put_nowait({"type": "websocket.connect"})
    socket = WebSocket({"type": "websocket", "headers": []}, line.receive, line.send)
    await socket.accept()
    transport, heard = SocketTransport(socket), Heard()
    carrying = asyncio.create_task(transport.run())
    yield line, transport, heard
    transport.close("the test is over")
    line.reads.set()
    async with asyncio.timeout(PATIENCE_S):
        await carrying


async def until(true: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110 -- there is no notification
            await asyncio.sleep(0)


async def test_frames_are_sent_and_received_in_order(open_line: Any) -> None:
    line, transport, heard = open_line
    line.coming.put_nowait({"type": "websocket.receive", "text": "early"})
    await asyncio.sleep(0)
    assert heard.frames == [], "no frame is delivered before the receiver listens"
    transport.start(heard)
    line.coming.put_nowait({"type": "websocket.receive", "text": "später"})
    line.coming.put_nowait({"type": "websocket.receive", "bytes": b"\x00"})
    for number in range(100):
        transport.send(str(number).encode())
    await until(lambda: len(line.texts) == 100 and len(heard.frames) == 3)
    assert line.texts == [str(number) for number in range(100)]
    assert heard.frames[:2] == [b"early", "später".encode()]
    assert isinstance(heard.frames[2], FrameError)


async def test_a_slow_reader_makes_producers_wait(open_line: Any) -> None:
    line, transport, heard = open_line
    transport.start(heard)
    line.reads.clear()
    frame = b"x" * 1024
    for _ in range(WRITE_HIGH_WATER_BYTES // 1024 + 2):
        transport.send(frame)
    transport.flush()
    assert transport.congested
    waiting = asyncio.create_task(transport.drain())
    await asyncio.sleep(0)
    assert not waiting.done()
    line.reads.set()
    async with asyncio.timeout(PATIENCE_S):
        await waiting
    assert not transport.congested


async def test_a_reader_that_never_reads_is_disconnected_at_the_buffer_limit(open_line: Any) -> None:
    line, transport, heard = open_line
    transport.start(heard)
    line.reads.clear()
    frame = b"x" * (1024 * 1024)
    for _ in range(WRITE_HARD_LIMIT_BYTES // len(frame) + 2):
        transport.send(frame)
    async with asyncio.timeout(PATIENCE_S):
        assert await heard.lost == "the peer does not read"
    with pytest.raises(ChannelClosed):
        await transport.drain()


async def test_a_paused_transport_delivers_no_frames(open_line: Any) -> None:
    line, transport, heard = open_line
    transport.start(heard)
    line.coming.put_nowait({"type": "websocket.receive", "text": "first"})
    await until(lambda: len(heard.frames) == 1)
    transport.pause_reading()
    for text in ("second", "third"):  # one read was under way when reading was paused
        line.coming.put_nowait({"type": "websocket.receive", "text": text})
    await until(lambda: len(heard.frames) == 2)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(heard.frames) == 2
    transport.resume_reading()
    await until(lambda: len(heard.frames) == 3)


async def test_a_closed_transport_reports_its_loss_at_once_and_sends_its_queue(open_line: Any) -> None:
    line, transport, heard = open_line
    transport.start(heard)
    transport.send(b"last words")
    transport.close("it was revoked")
    line.coming.put_nowait({"type": "websocket.receive", "text": "too late"})
    async with asyncio.timeout(PATIENCE_S):
        assert await heard.lost == "it was revoked"
    await until(lambda: line.left[-1]["type"] == "websocket.close")
    assert line.texts == ["last words"]
    assert line.left[-1]["reason"] == "it was revoked"
    assert heard.frames == []


async def test_a_peer_that_disconnects_is_reported_with_its_reason(open_line: Any) -> None:
    line, transport, heard = open_line
    transport.start(heard)
    line.coming.put_nowait({"type": "websocket.disconnect", "code": 1001, "reason": "the machine restarts"})
    async with asyncio.timeout(PATIENCE_S):
        assert "the machine restarts" in await heard.lost


async def test_a_loss_before_the_start_is_reported_at_the_start(open_line: Any) -> None:
    line, transport, heard = open_line
    transport.resume_reading()
    line.coming.put_nowait({"type": "websocket.disconnect", "code": 1006})
    await until(lambda: line.taken == 2)
    for _ in range(5):
        await asyncio.sleep(0)
    transport.start(heard)
    async with asyncio.timeout(PATIENCE_S):
        assert "1006" in await heard.lost

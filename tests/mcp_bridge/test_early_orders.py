"""Orders that arrive together with the one that opens a connection."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator

import pytest

from bollard.helper.process import FrameLink, framed
from bollard.mcp_bridge.__main__ import Bridge
from bollard.wire.bridge_frames import Close, Closed, Ended, Exited, OpenStdio, ToBridge, ToHost, encode_frame, to_host

ORDER = OpenStdio(link=1, group=1 << 22, protocol="legacy", start_s=30.0)


class Host:
    """The other side of a bridge, in this process."""

    def __init__(self) -> None:
        self.connection, channel = socket.socketpair()
        self.passing, self.passed = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.bridge = Bridge(channel, self.passed)
        self.heard: asyncio.Queue[ToHost] = asyncio.Queue()
        self.link = FrameLink(self.connection, decode=to_host, heard=self.heard.put_nowait, lost=lambda: None)

    def open_with(self, *orders: ToBridge) -> tuple[int, int, int]:
        """Hand over the pipes of a server, and send its order and these in one piece. Returns the server's ends."""
        stdin, to_server, from_server, stdout, from_stderr, stderr = (*os.pipe(), *os.pipe(), *os.pipe())
        socket.send_fds(self.passing, [b"."], [to_server, from_server, from_stderr])
        for each in (to_server, from_server, from_stderr):
            os.close(each)
        self.connection.sendall(b"".join(framed(encode_frame(each)) for each in (ORDER, *orders)))
        return stdin, stdout, stderr


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    peer = Host()
    serving = asyncio.create_task(peer.bridge.serve())
    yield peer
    peer.link.lose()
    await serving
    peer.passing.close()
    peer.passed.close()


async def test_a_server_that_has_ended_at_once_is_reported_with_its_code(host: Host) -> None:
    for each in host.open_with(Exited(link=1, code=1)):
        os.close(each)
    closed = await host.heard.get()
    assert isinstance(closed, Closed)
    assert closed.problem == "its process ended with code 1"
    assert isinstance(await host.heard.get(), Ended)


async def test_the_pipes_of_a_connection_closed_at_once_are_closed(host: Host) -> None:
    stdin, stdout, stderr = host.open_with(Close(link=1))
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(stdin, ended.set)
    await ended.wait()
    assert os.read(stdin, 1) == b""
    with contextlib.suppress(BrokenPipeError):
        os.write(stdout, b"x")
        pytest.fail("the bridge still reads")
    asyncio.get_running_loop().remove_reader(stdin)
    for each in (stdin, stdout, stderr):
        os.close(each)

"""The outcome of calls on a lost connection: only a call that was sent to the server may have started."""

import asyncio
import json
import os
import socket
import sys
from asyncio.streams import FlowControlMixin
from pathlib import Path

import httpx2
import mcp_types as types
import pytest
from anyio import wait_all_tasks_blocked
from mcp.shared.message import SessionMessage
from tests.ports import free_port

from bollard.mcp_bridge.dialer import Dialer
from bollard.mcp_bridge.http_client import departure, http_client
from bollard.mcp_bridge.link import Link
from bollard.mcp_bridge.stdio import _Input
from bollard.wire.bridge_frames import Closed, Connected, Dial, Dialled, Ended, MakeCall, OpenStdio, ToHost, Undone

HOSTILE = Path(__file__).parents[1] / "host" / "mcp" / "programs" / "hostile.py"


async def test_calls_that_wait_for_a_full_pipe_are_not_sent(tmp_path: Path) -> None:
    told: list[ToHost] = []
    connected = asyncio.Event()

    def tell(message: ToHost) -> None:
        told.append(message)
        if isinstance(message, Connected):
            connected.set()

    go = tmp_path / "go"
    stdin, to_server, from_server, stdout, from_stderr, stderr = (*os.pipe(), *os.pipe(), *os.pipe())
    line = [sys.executable, str(HOSTILE), "stuffed", str(go)]
    server = await asyncio.create_subprocess_exec(
        *line, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
    )
    for theirs in (stdin, stdout, stderr):
        os.close(theirs)
    order = OpenStdio(link=1, group=server.pid, protocol="legacy", start_s=30.0)
    link = Link(order, tell, Dialer(tell, lambda: None), (to_server, from_server, from_stderr))
    running = asyncio.create_task(link.run())
    await connected.wait()
    calls: list[asyncio.Task[object]] = []
    for number in range(12):
        made = MakeCall(link=1, call=number, tool="act", arguments={"padding": "x" * (1 << 20)}, timeout_s=60.0)
        calls.append(asyncio.create_task(link.call(made)))
        await wait_all_tasks_blocked()  # the server reads one of them, and the next fills its pipe
    go.touch()
    answers = await asyncio.gather(*calls)
    assert all(isinstance(answer, Undone) for answer in answers)
    assert [answer.sent for answer in answers if isinstance(answer, Undone)] == [True, True] + [False] * 10
    late = await link.call(MakeCall(link=1, call=99, tool="act", arguments={}, timeout_s=60.0))
    details = {"problem_type": "mcp.not_connected"}
    assert late == Undone(call=99, problem="the server is not connected", details=details, sent=False)
    assert [each for each in told if isinstance(each, Closed)], "the host hears of it before the process has ended"
    link.exited(await server.wait())
    await running
    assert isinstance(told[-1], Ended)


async def test_a_message_abandoned_before_the_pipe_has_space_is_never_sent() -> None:
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    transport, protocol = await loop.connect_write_pipe(FlowControlMixin, os.fdopen(writing, "wb"))
    stdin = _Input(asyncio.StreamWriter(transport, protocol, None, loop))
    left: list[bool] = []

    async def send(method: str, size: int) -> None:
        message = types.JSONRPCNotification(jsonrpc="2.0", method=method, params={"padding": "x" * size})
        with departure() as departing:
            try:
                await stdin.send(SessionMessage(message))
            finally:
                left.append(departing.left)

    for method in ("begun", "waits", "waits"):
        sending = asyncio.create_task(send(method, 1 << 20))
        await wait_all_tasks_blocked()  # the pipe is full, and no process reads it
        sending.cancel()
        await asyncio.wait([sending])
    assert left == [True, False, False]
    assert transport.get_write_buffer_size() < 1 << 20
    last = asyncio.create_task(send("last", 1))
    with os.fdopen(reading, "rb") as pipe:
        lines = [json.loads(await asyncio.to_thread(pipe.readline)) for _ in range(2)]
    assert [line["method"] for line in lines] == ["begun", "last"]
    await last
    transport.close()


async def test_an_http_request_counts_as_sent_once_its_head_is_started() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    there = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    nowhere = f"http://127.0.0.1:{free_port()}/mcp"
    dialled: list[socket.socket] = []

    def dial(asked: Dial) -> None:
        try:
            dialled.append(socket.create_connection(("127.0.0.1", asked.port)))
        except OSError as error:
            dialer.answered(Dialled(number=asked.number, problem=str(error)))
        else:
            dialled[-1].setblocking(False)
            dialer.answered(Dialled(number=asked.number))

    dialer = Dialer(dial, lambda: dialled[-1])
    async with server:
        for url, left in ((nowhere, False), (there, True)):
            async with http_client(url, {}, dialer) as client:
                with departure() as departing, pytest.raises(httpx2.TransportError):
                    await client.post(url, json={})
                assert departing.left is left, url

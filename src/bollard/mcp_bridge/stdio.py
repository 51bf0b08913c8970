"""An MCP server as a child process: one JSON-RPC message in a line of its stdin and stdout, both with limits.

The SDK has a transport of this kind too. It keeps a line of any length, lets the caller have stderr only as a file, and
passes on a part of the environment that it chooses itself.
"""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from bollard.mcp_bridge.limits import (
    LOG_LINE_BYTES,
    LOG_LINES_PER_S,
    MESSAGES_PER_WINDOW,
    SERVER_END_S,
    SERVER_KILL_S,
    WINDOW_S,
)
from bollard.wire.bridge_frames import MCP_MESSAGE_BYTES
from bollard.wire.errors import FrameError
from bollard.wire.framing import LineFramer

__all__ = ["ServerProcess"]

_READ_BYTES = 64 * 1024
_Incoming = SessionMessage | Exception
_Pipe = TypeVar("_Pipe", asyncio.StreamReader, asyncio.StreamWriter)


class ServerProcess:
    """Starts one server, carries its messages, and ends it with everything that it started."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        cwd: str,
        logged: Callable[[str], None],
        group: Callable[[int | None], None],
        gone: Callable[[], None],
    ) -> None:
        """`logged` hears of each line of stderr, `group` of the process group: its number, and nothing once it is
        gone; `gone` is told once when nothing comes any more."""
        self._argv = argv
        self._environment = environment
        self._cwd = cwd
        self._logged = logged
        self._group = group
        self._gone = gone
        self.ended = ""
        """Why nothing comes from it any more, once it is so."""

    @asynccontextmanager
    async def connected(
        self,
    ) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[_Incoming], MemoryObjectSendStream[SessionMessage]]]:
        """The streams that the SDK's client wants. Raises `OSError` when there is no such program."""
        process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=self._cwd,
            env=dict(self._environment),
            start_new_session=True,
        )
        self._group(process.pid)
        to_session, from_server = anyio.create_memory_object_stream[_Incoming](0)
        to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(self._read(process, to_session)),
            asyncio.create_task(self._write(process, from_session)),
            asyncio.create_task(self._listen(process)),
        ]
        try:
            yield from_server, to_server
        finally:
            for task in tasks:
                task.cancel()
            for stream in (to_session, from_server, to_server, from_session):
                stream.close()
            with anyio.CancelScope(shield=True):
                await _end(process)
            self._group(None)

    async def _read(self, process: Process, to_session: MemoryObjectSendStream[_Incoming]) -> None:
        stdout, framer, pace = _there(process.stdout), LineFramer(MCP_MESSAGE_BYTES), _Pace()
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            while not self.ended and (data := await stdout.read(_READ_BYTES)):
                await self._deliver(framer.feed(data), pace, to_session)
        await self._read_no_more(process, to_session)

    async def _deliver(
        self, lines: Sequence[bytes | FrameError], pace: "_Pace", to_session: MemoryObjectSendStream[_Incoming]
    ) -> None:
        for line in lines:
            if isinstance(line, FrameError):
                self.ended = f"it sent a message of more than {MCP_MESSAGE_BYTES} bytes"
                return
            if line.strip():
                await pace.step()
                await to_session.send(_parsed(line))

    async def _read_no_more(self, process: Process, to_session: MemoryObjectSendStream[_Incoming]) -> None:
        if not self.ended:  # it closed its stdout: it is about to end, or of no use
            await _wait(process, SERVER_END_S)
            self.ended = _how_it_ended(process.returncode)
        self._gone()
        to_session.close()

    async def _write(self, process: Process, from_session: MemoryObjectReceiveStream[SessionMessage]) -> None:
        stdin = _there(process.stdin)
        with contextlib.suppress(OSError):  # its end is noticed where it is read
            async for message in from_session:
                stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await stdin.drain()

    async def _listen(self, process: Process) -> None:
        stderr, framer, quota = _there(process.stderr), LineFramer(LOG_LINE_BYTES), _Quota()
        while data := await stderr.read(_READ_BYTES):
            for line in framer.feed(data):
                if left_out := quota.left_out():
                    self._logged(f"[{left_out} lines were left out]")
                if quota.take():
                    self._logged("[a long line]" if isinstance(line, FrameError) else line.decode("utf-8", "replace"))


class _Pace:
    """Lets so many messages pass in a window, and then waits for the next: one server must not have the whole loop."""

    def __init__(self) -> None:
        self._since = 0.0
        self._count = 0

    async def step(self) -> None:
        self._count += 1
        if self._count < MESSAGES_PER_WINDOW:
            return
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._since + WINDOW_S - loop.time()))
        self._since, self._count = loop.time(), 0


class _Quota:
    """How many lines may be passed on in this second."""

    def __init__(self) -> None:
        self._second = 0
        self._count = 0

    def left_out(self) -> int:
        """Lines of an earlier second that nobody saw; asked once for each line."""
        now = int(asyncio.get_running_loop().time())
        if now == self._second:
            return 0
        lost = max(0, self._count - LOG_LINES_PER_S)
        self._second, self._count = now, 0
        return lost

    def take(self) -> bool:
        self._count += 1
        return self._count <= LOG_LINES_PER_S


def _there(pipe: _Pipe | None) -> _Pipe:
    if pipe is None:
        raise RuntimeError("a server is always started with its three pipes")
    return pipe


def _parsed(line: bytes) -> _Incoming:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "it closed its stdout and still runs"
    return f"its process ended with code {code}" if code >= 0 else f"its process was ended by signal {-code}"


async def _end(process: Process) -> None:
    """As the specification of MCP has it: close stdin, wait, ask, kill. What the server started goes with it."""
    _there(process.stdin).close()
    if process.returncode is None:
        await _wait(process, SERVER_END_S)
    if process.returncode is None:
        _signal(process.pid, signal.SIGTERM)
        await _wait(process, SERVER_KILL_S)
    _signal(process.pid, signal.SIGKILL)
    await _wait(process, SERVER_KILL_S)


async def _wait(process: Process, limit_s: float) -> None:
    """Not for its pipes: a process that inherited them may hold them open for ever."""
    loop = asyncio.get_running_loop()
    until = loop.time() + limit_s
    # asyncio's own wait is for the pipes too, and nothing else tells of the end of a process alone.
    while process.returncode is None and loop.time() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)

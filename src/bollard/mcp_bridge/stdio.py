"""The pipes to an MCP server that the host has started, with one JSON-RPC message per line on stdin and stdout, and
limits on both.

Replaces the stdio transport of the SDK, which starts the server itself and accepts lines of any length.
"""

import asyncio
import contextlib
import os
import re
import signal
from asyncio.streams import FlowControlMixin
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Self

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from bollard.mcp_bridge.fault import Fault, fault
from bollard.mcp_bridge.http_client import mark_departed
from bollard.mcp_bridge.limits import (
    EXIT_S,
    LAST_LINES_S,
    LOG_LINE_BYTES,
    LOG_LINES_PER_S,
    MESSAGES_PER_WINDOW,
    WINDOW_S,
)
from bollard.wire.bridge_frames import MCP_MESSAGE_BYTES, SERVER_END_S, SERVER_KILL_S
from bollard.wire.errors import FrameError
from bollard.wire.stream import LineFramer

_READ_BYTES = 64 * 1024
_STDERR: Final = "its stderr may say why"
_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"'
_ID: Final = rb'"id"\s*:\s*(\d{1,15})'
_RESULT: Final = rb'"(?:result|error)"\s*:'
_MAYBE_VERSION: Final = rb"(?:" + _VERSION + rb"\s*,\s*)?"
_ID_FIRST: Final = re.compile(rb"\s*\{\s*" + _MAYBE_VERSION + _ID + rb"\s*,\s*" + _MAYBE_VERSION + _RESULT)
_RESULT_FIRST: Final = re.compile(rb"\s*\{\s*" + _MAYBE_VERSION + _RESULT)
_ID_LAST: Final = re.compile(rb",\s*" + _ID + rb"\s*(?:,\s*" + _VERSION + rb"\s*)?\}\s*\Z")
_ENVELOPE_BYTES: Final = 256
"""Bytes at the end of an answer that may hold its id, if the id does not come first."""
_Incoming = SessionMessage | Exception
Pipes = tuple[int, int, int]
"""The other ends of stdin, stdout and stderr of a server."""


class ServerPipes:
    """Carries the messages of one server, and waits for its end. The host ends its process."""

    def __init__(self, pipes: Pipes, *, group: int, logged: Callable[[str], None], gone: Callable[[], None]) -> None:
        """`group` is the process group of the server. `logged` gets each line of stderr; `gone` is called once when
        the output of the server ends."""
        self._pipes: Pipes | None = pipes
        self._group = group
        self._logged = logged
        self._gone = gone
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.ended: Fault | None = None
        """Why its output ended; `None` while it runs."""

    def exited(self, code: int) -> None:
        """Its process has ended."""
        if not self._code.done():
            self._code.set_result(code)

    def release(self) -> None:
        """Close the pipes that nobody has opened."""
        for each in self._pipes or ():
            os.close(each)
        self._pipes = None

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[_Incoming], "_Input"]]:
        """The streams for the SDK's client."""
        if self._pipes is None:
            raise RuntimeError("the pipes of a server are opened once")
        (stdin, stdout, stderr), self._pipes = self._pipes, None
        writer = await _open_writer(stdin)
        out, closing_out = await _open_reader(stdout)
        errors, closing_errors = await _open_reader(stderr)
        to_session, from_server = anyio.create_memory_object_stream[_Incoming](0)
        to_server = _Input(writer)
        saying = asyncio.create_task(self._read_stderr(errors))
        reading = asyncio.create_task(self._read(out, saying, to_session, to_server))
        try:
            yield from_server, to_server
        finally:
            if to_server.is_broken:  # it has closed its stdin, so it is ending
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([reading], timeout=EXIT_S + LAST_LINES_S)
            for task in (reading, saying):
                task.cancel()
            for stream in (to_session, from_server):
                stream.close()
            with anyio.CancelScope(shield=True):
                await self._end(writer)
            for transport in (writer.transport, closing_out, closing_errors):
                transport.close()

    async def _end(self, stdin: asyncio.StreamWriter) -> None:
        """Close its stdin, and wait until the host has ended it. Kill it if the host is gone."""
        stdin.close()
        await asyncio.wait([self._code], timeout=SERVER_END_S + SERVER_KILL_S)
        if not self._code.done():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)

    async def _read(
        self,
        stdout: asyncio.StreamReader,
        saying: "asyncio.Task[None]",
        to_session: MemoryObjectSendStream[_Incoming],
        to_server: "_Input",
    ) -> None:
        framer, pace = LineFramer(MCP_MESSAGE_BYTES), _Pace()
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            while not self.ended and (data := await stdout.read(_READ_BYTES)):
                await self._deliver(framer.feed(data), pace, to_session)
        if not self.ended:  # it closed its stdout, so it is ending or unusable
            await asyncio.wait([self._code], timeout=EXIT_S)
            await asyncio.wait([saying], timeout=LAST_LINES_S)  # the host looks there for the cause
            self.ended = _describe_exit(self._code.result() if self._code.done() else None)
        self._gone()
        to_server.abort()
        to_session.close()

    async def _deliver(
        self, lines: Sequence[bytes | FrameError], pace: "_Pace", to_session: MemoryObjectSendStream[_Incoming]
    ) -> None:
        for line in lines:
            if isinstance(line, FrameError):
                problem = f"it sent a message of more than {MCP_MESSAGE_BYTES} bytes"
                self.ended = fault(problem, "mcp.message_too_large", _STDERR, limit=MCP_MESSAGE_BYTES)
                return
            if line.strip():
                await pace.step()
                await to_session.send(_parse(line))

    async def _read_stderr(self, stderr: asyncio.StreamReader) -> None:
        framer, quota = LineFramer(LOG_LINE_BYTES), _Quota()
        while data := await stderr.read(_READ_BYTES):
            for line in framer.feed(data):
                if left_out := quota.left_out():
                    self._logged(f"[{left_out} lines were left out]")
                if quota.take():
                    self._logged("[a long line]" if isinstance(line, FrameError) else line.decode("utf-8", "replace"))


class _Input:
    """The server's stdin as the SDK's write stream. Sends one message at a time, and none after the server is lost."""

    def __init__(self, stdin: asyncio.StreamWriter) -> None:
        self._stdin = stdin
        self._turn = asyncio.Lock()
        self._closed = False
        self.is_broken = False
        """Whether the server does not read any more."""

    async def send(self, item: SessionMessage, /) -> None:
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        async with self._turn:
            try:
                await self._stdin.drain()  # a cancelled sender may have left its message in the buffer
                if self._closed or self._stdin.is_closing():
                    raise anyio.ClosedResourceError
                mark_departed()
                self._stdin.write(line)
                await self._stdin.drain()
            except OSError as error:
                self.is_broken = True
                raise anyio.BrokenResourceError from error

    def abort(self) -> None:
        """Send nothing more, not even buffered messages."""
        self._closed = True
        self._stdin.transport.abort()

    async def aclose(self) -> None:
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Pace:
    """Limits the messages per window, so that one server cannot occupy the event loop."""

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
    """Limits the log lines per second."""

    def __init__(self) -> None:
        self._second = 0
        self._count = 0

    def left_out(self) -> int:
        """The number of dropped lines when a new second begins, otherwise 0."""
        now = int(asyncio.get_running_loop().time())
        if now == self._second:
            return 0
        lost = max(0, self._count - LOG_LINES_PER_S)
        self._second, self._count = now, 0
        return lost

    def take(self) -> bool:
        self._count += 1
        return self._count <= LOG_LINES_PER_S


async def _open_writer(descriptor: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    file = os.fdopen(descriptor, "wb", 0)
    transport, protocol = await loop.connect_write_pipe(FlowControlMixin, file)
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _open_reader(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader()
    file = os.fdopen(descriptor, "rb", 0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file
    )
    return reader, transport


def _parse(line: bytes) -> _Incoming:
    """Parse a message. An unreadable answer (broken, or nested too deep) becomes an error answer to its request, so the
    caller does not wait for the time-out."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValidationError as error:
        answered = _request_id(line)
        if answered is None:
            return error
        reason = error.errors(include_url=False, include_input=False, include_context=False)[0]["msg"]
        problem = types.ErrorData(code=types.PARSE_ERROR, message=f"the answer cannot be read: {reason}")
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=answered, error=problem))


def _request_id(line: bytes) -> int | None:
    """The request id of an unreadable answer. Looks only at the envelope: an `id` inside the result may be that of
    another request."""
    match = _ID_FIRST.match(line)
    if match is None and _RESULT_FIRST.match(line) is not None:
        match = _ID_LAST.search(line, max(0, len(line) - _ENVELOPE_BYTES))
    return None if match is None else int(match[1])


def _describe_exit(code: int | None) -> Fault:
    if code is None:
        return fault("it closed its stdout and still runs", "mcp.stdout_closed", _STDERR)
    if code >= 0:
        return fault(f"its process ended with code {code}", "mcp.exit", _STDERR, code=code)
    return fault(f"its process was ended by signal {-code}", "mcp.signal", _STDERR, signal=-code)

"""An MCP server as a child process, with one JSON-RPC message per line on stdin and stdout, and limits on both.

Replaces the stdio transport of the SDK, which accepts lines of any length, offers stderr only as a file, and chooses
itself which environment variables the server gets.
"""

import asyncio
import contextlib
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Self, TypeVar, cast

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from bollard.mcp_bridge.fault import Fault, fault
from bollard.mcp_bridge.http_client import mark_departed
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
_Pipe = TypeVar("_Pipe", asyncio.StreamReader, asyncio.StreamWriter)


class ServerProcess:
    """Starts one server, carries its messages, and ends its whole process group."""

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
        """`logged` gets each line of stderr; `group` the process group, and `None` when it has ended; `gone` is called
        once when the output of the server ends."""
        self._argv = argv
        self._environment = environment
        self._cwd = cwd
        self._logged = logged
        self._group = group
        self._gone = gone
        self.ended: Fault | None = None
        """Why its output ended; `None` while it runs."""

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[_Incoming], "_Input"]]:
        """The streams for the SDK's client. Raises `OSError` if the program cannot be started."""
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
        to_server = _Input(_require(process.stdin))
        tasks = [
            asyncio.create_task(self._read(process, to_session, to_server)),
            asyncio.create_task(self._read_stderr(process)),
        ]
        try:
            yield from_server, to_server
        finally:
            for task in tasks:
                task.cancel()
            for stream in (to_session, from_server):
                stream.close()
            with anyio.CancelScope(shield=True):
                await _end(process)
            self._group(None)

    async def _read(self, process: Process, to_session: MemoryObjectSendStream[_Incoming], to_server: "_Input") -> None:
        stdout, framer, pace = _require(process.stdout), LineFramer(MCP_MESSAGE_BYTES), _Pace()
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            while not self.ended and (data := await stdout.read(_READ_BYTES)):
                await self._deliver(framer.feed(data), pace, to_session)
        if not self.ended:  # it closed its stdout, so it is ending or unusable
            await _wait(process, SERVER_END_S)
            self.ended = _describe_exit(process.returncode)
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

    async def _read_stderr(self, process: Process) -> None:
        stderr, framer, quota = _require(process.stderr), LineFramer(LOG_LINE_BYTES), _Quota()
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


def _require(pipe: _Pipe | None) -> _Pipe:
    if pipe is None:
        raise RuntimeError("a server is always started with its three pipes")
    return pipe


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


async def _end(process: Process) -> None:
    """End the process group as MCP specifies: close stdin, wait, SIGTERM, SIGKILL."""
    _require(process.stdin).close()
    if process.returncode is None:
        await _wait(process, SERVER_END_S)
    if process.returncode is None:
        _signal(process.pid, signal.SIGTERM)
        await _wait(process, SERVER_KILL_S)
    _signal(process.pid, signal.SIGKILL)
    await _wait(process, SERVER_KILL_S)
    # asyncio closes a pipe only when it was read to its end.
    cast("asyncio.SubprocessTransport", vars(process)["_transport"]).close()


async def _wait(process: Process, limit_s: float) -> None:
    """Wait for the exit of the process, but not for its pipes: a child that inherited them may keep them open."""
    loop = asyncio.get_running_loop()
    until = loop.time() + limit_s
    # asyncio's own `wait` also waits for the pipes.
    while process.returncode is None and loop.time() < until:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)

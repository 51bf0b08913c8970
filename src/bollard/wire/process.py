"""A worker process on the other end of a socket pair: its environment, its channel, its output, its end.

Starts and stops one process. When to start one, and what a crash means, is the supervisor's business.
"""

import asyncio
import contextlib
import os
import signal
import socket
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, cast

from bollard.protocol import CHANNEL_FD_VARIABLE, limits
from bollard.wire.limits import OUTPUT_LINE_BYTES, TERMINATE_GRACE_S
from bollard.wire.stream import StreamTransport, connect_socket

__all__ = ["ENVIRONMENT_ALLOWED", "OutputLine", "WorkerProcess", "spawn_worker", "worker_environment"]

ENVIRONMENT_ALLOWED: Final = frozenset(
    {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ", "USER"}
)
"""What every worker may see of the host's environment. A plugin's manifest names what else it needs."""

OutputLine = Callable[[Literal["stdout", "stderr"], str], None]


def worker_environment(inherited: Mapping[str, str], declared: Iterable[str] = ()) -> dict[str, str]:
    """The environment of a worker: the allow-list and what its manifest declares; never a `BOLLARD_*` of the host."""
    wanted = ENVIRONMENT_ALLOWED | {name for name in declared if not name.upper().startswith("BOLLARD_")}
    return {name: value for name, value in inherited.items() if name in wanted}


class _Lines:
    """One pipe's bytes as lines of at most `OUTPUT_LINE_BYTES`: a longer one is cut, said to be cut, and skipped."""

    def __init__(self, name: Literal["stdout", "stderr"], output: OutputLine) -> None:
        self._name: Literal["stdout", "stderr"] = name
        self._output = output
        self._line = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> None:
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._add(piece)
            if not self._skipping:
                self._tell("")
            self._skipping = False
        self._add(rest)

    def end(self) -> None:
        if self._line:
            self._tell("")

    def _add(self, piece: bytes) -> None:
        if self._skipping:
            return
        room = OUTPUT_LINE_BYTES - len(self._line)
        self._line += piece[:room]
        if len(piece) > room:
            self._skipping = True
            self._tell(" […cut]")

    def _tell(self, suffix: str) -> None:
        line = self._line.decode("utf-8", "replace") + suffix
        self._line.clear()
        self._output(self._name, line)


class _Watcher(asyncio.SubprocessProtocol):
    """Hears of a process's output and of its end, each on its own: a grandchild may hold the pipes for longer."""

    def __init__(self, output: OutputLine) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = loop.create_future()
        self.pipes_closed: asyncio.Future[None] = loop.create_future()
        self._transport: asyncio.SubprocessTransport | None = None
        self._lines = {1: _Lines("stdout", output), 2: _Lines("stderr", output)}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if lines := self._lines.get(fd):
            lines.feed(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        del exc  # a pipe that broke has ended too
        if lines := self._lines.pop(fd, None):
            lines.end()
        if not self._lines and not self.pipes_closed.done():
            self.pipes_closed.set_result(None)

    def process_exited(self) -> None:
        code = self._transport.get_returncode() if self._transport is not None else None
        if not self.exited.done():
            self.exited.set_result(0 if code is None else code)


class WorkerProcess:
    """A started worker: its transport, and the way to end it and everything it spawned."""

    def __init__(self, process: asyncio.SubprocessTransport, watcher: _Watcher, transport: StreamTransport) -> None:
        self.transport = transport
        self._process = process
        self._watcher = watcher

    @property
    def pid(self) -> int:
        return self._process.get_pid()

    @property
    def returncode(self) -> int | None:
        return self._process.get_returncode()

    async def wait(self) -> int:
        """The exit code, once the process has ended; what it spawned may live on and hold its output open."""
        return await asyncio.shield(self._watcher.exited)

    async def stop(self, grace_s: float = TERMINATE_GRACE_S) -> int:
        """Close the channel, give the worker a moment to leave by itself, then end its whole process group."""
        self.transport.close("the host stops the worker")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), grace_s)
        return await self.kill()

    async def kill(self) -> int:
        """End the whole process group now. What it spawned in it goes with it, also after the worker itself left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        code = await self.wait()
        self.transport.close("the worker ended")
        # A grandchild that left the group may hold the pipes open: what was written is read, the rest is not awaited.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._watcher.pipes_closed), TERMINATE_GRACE_S)
        self._process.close()
        return code


async def spawn_worker(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    output: OutputLine,
    cwd: Path | None = None,
    frame_bytes: int = limits.FRAME_BYTES,
) -> WorkerProcess:
    """Start a worker with nothing inherited but its channel; its stdout and stderr arrive as lines."""
    ours, theirs = socket.socketpair()
    try:
        process, watcher = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Watcher(output),
            *argv,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=cwd,
            env={**environment, CHANNEL_FD_VARIABLE: str(theirs.fileno())},
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    try:
        transport = await connect_socket(ours, frame_bytes)
    except BaseException:
        ours.close()
        process.kill()
        process.close()
        raise
    return WorkerProcess(process, watcher, transport)

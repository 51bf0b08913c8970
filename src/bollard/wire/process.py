"""A worker process on the other end of a socket pair: its environment, its channel, its output, its end.

Starts and stops one process. When to start one, and what a crash means, is the supervisor's business.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, cast

from bollard.protocol import CHANNEL_FD_VARIABLE, limits
from bollard.wire.limits import TERMINATE_GRACE_S
from bollard.wire.output import Lines, OutputLine, Pipe
from bollard.wire.output_gate import OutputGate
from bollard.wire.stream import StreamTransport, connect_socket

__all__ = ["ENVIRONMENT_ALLOWED", "OutputLine", "WorkerProcess", "spawn_worker", "worker_environment"]

ENVIRONMENT_ALLOWED: Final = frozenset(
    {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ", "USER"}
)
"""What every worker may see of the host's environment. A plugin's manifest names what else it needs."""


def worker_environment(inherited: Mapping[str, str], declared: Iterable[str] = ()) -> dict[str, str]:
    """The environment of a worker: the allow-list and what its manifest declares; never a `BOLLARD_*` of the host."""
    wanted = ENVIRONMENT_ALLOWED | {name for name in declared if not name.upper().startswith("BOLLARD_")}
    return {name: value for name, value in inherited.items() if name in wanted}


class _Child:
    """A process that was started, its output, and its end, each on its own: a grandchild may hold the pipes for longer.

    Not asyncio's: a loop that is ended while asyncio starts a process waits for that process for ever, and a host that
    cannot start would not end.
    """

    def __init__(self, process: subprocess.Popen[bytes], output: OutputLine) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = process
        gate = OutputGate(self._loop.time())
        self._pipes = (
            Pipe(cast("IO[bytes]", process.stdout), Lines("stdout", output, gate, self._loop.time), gate),
            Pipe(cast("IO[bytes]", process.stderr), Lines("stderr", output, gate, self._loop.time), gate),
        )
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self._killed = False
        threading.Thread(target=self._await_end, name=f"bollard-worker-{self.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def read_out(self) -> None:
        """Wait until nobody holds its pipes."""
        await asyncio.wait([pipe.closed for pipe in self._pipes])

    def kill(self) -> None:
        """What it spawned goes with it, also after it left by itself. Once: then nobody is left in the group, and its
        number may become somebody else's."""
        if self._killed:
            return
        self._killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Read no more."""
        for pipe in self._pipes:
            pipe.close()

    def _await_end(self) -> None:
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: there is nobody to tell
            self._loop.call_soon_threadsafe(self._ended, code)

    def _ended(self, code: int) -> None:
        if not self.exited.done():
            self.exited.set_result(code)


class WorkerProcess:
    """A started worker: its transport, and the way to end it and everything it spawned."""

    def __init__(self, child: _Child, transport: StreamTransport) -> None:
        self.transport = transport
        self._child = child

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        return self._child.exited.result() if self._child.exited.done() else None

    async def wait(self) -> int:
        """The exit code, once the process has ended; what it spawned may live on and hold its output open."""
        return await asyncio.shield(self._child.exited)

    async def stop(self, grace_s: float = TERMINATE_GRACE_S) -> int:
        """Close the channel, give the worker a moment to leave by itself, then end its whole process group."""
        self.transport.close("the host stops the worker")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), grace_s)
        return await self.kill()

    async def kill(self) -> int:
        """End the whole process group now. What it spawned in it goes with it, also after the worker itself left."""
        self._child.kill()
        code = await self.wait()
        self.transport.close("the worker ended")
        # A grandchild that left the group may hold the pipes open: what was written is read, the rest is not awaited.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._child.read_out(), TERMINATE_GRACE_S)
        self._child.close()
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
    with theirs:
        try:
            process = _started(argv, environment, cwd, theirs.fileno())
        except BaseException:
            ours.close()
            raise
    child = _Child(process, output)
    try:
        transport = await connect_socket(ours, frame_bytes)
    except BaseException:
        ours.close()
        child.kill()
        child.close()
        raise
    return WorkerProcess(child, transport)


def _started(
    argv: Sequence[str], environment: Mapping[str, str], cwd: Path | None, channel: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 -- what a worker's command is, its plugin's installer decided
        argv,
        bufsize=0,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={**environment, CHANNEL_FD_VARIABLE: str(channel)},
        pass_fds=(channel,),
        start_new_session=True,
    )

"""A worker process on the other end of a socket pair: its environment, its channel, its output, its end.

Starts and stops one process. When to start one, and what a crash means, is the supervisor's business.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import struct
import subprocess
import termios
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from bollard.protocol import CHANNEL_FD_VARIABLE
from bollard.wire.limits import TERMINATE_GRACE_S
from bollard.wire.output import LineCallback, LineSplitter, OutputLimiter, PipeName, PipeReader
from bollard.wire.stream import StreamTransport, connect_socket

__all__ = ["ENVIRONMENT_ALLOWED", "ChildProcess", "LineCallback", "WorkerProcess", "spawn_worker", "worker_environment"]

ENVIRONMENT_ALLOWED: Final = frozenset(
    {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ", "USER"}
)
"""What every worker may see of the host's environment. A plugin's manifest names what else it needs."""


def worker_environment(inherited: Mapping[str, str], declared: Iterable[str] = ()) -> dict[str, str]:
    """The environment of a worker: the allow-list and what its manifest declares; never a `BOLLARD_*` of the host."""
    wanted = ENVIRONMENT_ALLOWED | {name for name in declared if not name.upper().startswith("BOLLARD_")}
    return {name: value for name, value in inherited.items() if name in wanted}


class ChildProcess:
    """A started process, its output, and its end, each on its own: a grandchild may hold the pipes for longer.

    Not asyncio's: a loop that is ended while asyncio starts a process waits for that process for ever, and a host that
    cannot start would not end.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        channel: int,
        output: LineCallback | None,
        cwd: Path | None = None,
        own_session: bool = True,
    ) -> None:
        """Start it with nothing inherited but the descriptor of its channel. Its stdout and stderr arrive as lines;
        without `output` they are the host's. Without a session of its own it is killed alone. Raises `OSError`."""
        self._own_session = own_session
        self._loop = asyncio.get_running_loop()
        pipe = None if output is None else subprocess.PIPE
        self._process = subprocess.Popen(  # noqa: S603 -- our own module, or what a plugin's installer decided
            argv,
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            cwd=cwd,
            env=environment,
            pass_fds=(channel,),
            start_new_session=own_session,
        )
        gate = OutputLimiter(self._loop.time())
        files: Mapping[PipeName, IO[bytes] | None] = {"stdout": self._process.stdout, "stderr": self._process.stderr}
        self._pipes = [
            PipeReader(file, LineSplitter(name, output, gate, self._loop.time), gate)
            for name, file in files.items()
            if file is not None and output is not None
        ]
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self._killed = False
        threading.Thread(target=self._await_end, name=f"bollard-child-{self.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """What it spawned goes with it, also after it left by itself. Once: then nobody is left in the group, and its
        number may become somebody else's."""
        if not self._own_session:
            self._process.kill()
            return
        if self._killed:
            return
        self._killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Read what is left of its output. A grandchild that left the group may hold the pipes open: what was written
        is read, the rest is not awaited."""
        if self._pipes:
            await asyncio.wait([pipe.closed for pipe in self._pipes], timeout=TERMINATE_GRACE_S)
        self.close_pipes()

    def close_pipes(self) -> None:
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
    """A started worker: its transport, and the way to end it and everything it spawned.

    It holds the worker's end of the socket pair too, until the process has ended. What the worker has not read by then
    is still in that socket, so the transport knows which frames the worker never read (decision 0082).
    """

    def __init__(self, child: ChildProcess, transport: StreamTransport, theirs: socket.socket) -> None:
        self.transport = transport
        self._child = child
        self._theirs = theirs
        child.exited.add_done_callback(lambda _: self._release_channel())

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        return self._child.exited.result() if self._child.exited.done() else None

    def fault(self) -> str | None:
        """Why the process cannot answer, as far as the kernel shows: a signal such as SIGSTOP has stopped it (a
        debugger's stop does not count), or it has closed its channel."""
        proc = f"/proc/{self.pid}"
        try:
            if Path(f"{proc}/stat").read_bytes().rpartition(b")")[2].split()[:1] == [b"T"]:
                return "the worker's process is stopped"
            channel = f"socket:[{os.fstat(self._theirs.fileno()).st_ino}]"
            if all(os.readlink(f"{proc}/fd/{number}") != channel for number in os.listdir(f"{proc}/fd")):
                return "the worker has closed its channel"
        except OSError:
            pass  # it has ended, a file was closed meanwhile, or /proc cannot be read
        return None

    def _release_channel(self) -> None:
        """The process has ended: count what it left unread. Closing its socket ends the channel, after everything that
        the worker wrote has arrived."""
        if self._theirs.fileno() < 0:
            return
        unread = struct.unpack("i", fcntl.ioctl(self._theirs, termios.FIONREAD, struct.pack("i", 0)))[0]
        self.transport.peer_ended(unread)
        self._theirs.close()

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
        await self._child.close()
        return code


async def spawn_worker(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    output: LineCallback,
    cwd: Path | None = None,
) -> WorkerProcess:
    """Start a worker with nothing inherited but its channel; its stdout and stderr arrive as lines."""
    ours, theirs = socket.socketpair()
    try:
        child = ChildProcess(
            argv,
            environment={**environment, CHANNEL_FD_VARIABLE: str(theirs.fileno())},
            channel=theirs.fileno(),
            output=output,
            cwd=cwd,
        )
    except BaseException:
        ours.close()
        theirs.close()
        raise
    try:
        transport = await connect_socket(ours)
    except BaseException:
        ours.close()
        theirs.close()
        child.kill()
        child.close_pipes()
        raise
    return WorkerProcess(child, transport, theirs)

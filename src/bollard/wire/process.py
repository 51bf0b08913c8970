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

ENVIRONMENT_ALLOWED: Final = frozenset(
    {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ", "USER"}
)
"""The host's variables that every worker gets. The manifest of a plugin names more."""


def worker_environment(inherited: Mapping[str, str], declared: Iterable[str] = ()) -> dict[str, str]:
    """The environment of a worker: the allow-list and the variables of its manifest, but never `BOLLARD_*`."""
    names = ENVIRONMENT_ALLOWED | {name for name in declared if not name.upper().startswith("BOLLARD_")}
    return {name: value for name, value in inherited.items() if name in names}


class ChildProcess:
    """A process with its output and its exit, which are independent: a grandchild may keep the pipes open.

    Not asyncio's subprocess: a loop that ends while asyncio starts a process waits for that process forever.
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
        """Start the process. It inherits only the descriptor of its connection. `output` gets its stdout and stderr as
        lines; without it they go to the host's. Without `own_session`, `kill` ends only the process. Raises
        `OSError`."""
        self._own_session = own_session
        self._loop = asyncio.get_running_loop()
        pipe = None if output is None else subprocess.PIPE
        self._process = subprocess.Popen(  # noqa: S603 -- our own module, or the command of an installed plugin
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
        """Kill the process group, also after the process itself has exited. Only once: afterwards the group is empty,
        and the system may reuse its number."""
        if not self._own_session:
            self._process.kill()
            return
        if self._killed:
            return
        self._killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Read the rest of the output, for a limited time: a grandchild outside of the group may keep the pipes
        open."""
        if self._pipes:
            await asyncio.wait([pipe.closed for pipe in self._pipes], timeout=TERMINATE_GRACE_S)
        self.close_pipes()

    def close_pipes(self) -> None:
        """Stop reading the output."""
        for pipe in self._pipes:
            pipe.close()

    def _await_end(self) -> None:
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ended, code)

    def _ended(self, code: int) -> None:
        if not self.exited.done():
            self.exited.set_result(code)


class WorkerProcess:
    """A worker process with its transport. Stopping it ends everything that it spawned.

    It also keeps the worker's end of the socket pair open until the process has exited. Unread bytes stay in that
    socket, so the transport knows which frames the worker never read (ADR 0082).
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
        """Why the process cannot respond, if the kernel shows it: a signal such as SIGSTOP stopped it (a debugger does
        not count), or it closed its connection."""
        proc = f"/proc/{self.pid}"
        try:
            if Path(f"{proc}/stat").read_bytes().rpartition(b")")[2].split()[:1] == [b"T"]:
                return "the worker's process is stopped"
            channel = f"socket:[{os.fstat(self._theirs.fileno()).st_ino}]"
            if all(os.readlink(f"{proc}/fd/{number}") != channel for number in os.listdir(f"{proc}/fd")):
                return "the worker has closed its channel"
        except OSError:
            pass  # the process has exited, a file was closed meanwhile, or /proc is unreadable
        return None

    def _release_channel(self) -> None:
        """The process has exited: count the unread bytes. Closing its socket ends the connection after everything that
        the worker wrote has arrived."""
        if self._theirs.fileno() < 0:
            return
        unread = struct.unpack("i", fcntl.ioctl(self._theirs, termios.FIONREAD, struct.pack("i", 0)))[0]
        self.transport.peer_ended(unread)
        self._theirs.close()

    async def wait(self) -> int:
        """Wait for the exit code. Processes that it spawned may still run and keep its output open."""
        return await asyncio.shield(self._child.exited)

    async def stop(self, grace_s: float = TERMINATE_GRACE_S) -> int:
        """Close the connection, wait `grace_s` for the worker to exit, then kill its process group."""
        self.transport.close("the host stops the worker")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), grace_s)
        return await self.kill()

    async def kill(self) -> int:
        """Kill the process group now, also after the worker itself has exited."""
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
    """Start a worker that inherits only its connection; `output` gets its stdout and stderr as lines."""
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

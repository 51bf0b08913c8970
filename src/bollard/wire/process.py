"""A child process on the other end of a socket pair: its environment, its connection, its output, its end.

Starts and stops one process. The supervisor decides when to start one, and what a crash means.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import termios
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Literal

from bollard.protocol import CHANNEL_FD_VARIABLE
from bollard.wire.flow_control import OutputLimiter
from bollard.wire.limits import OUTPUT_LAST_LINES, OUTPUT_LINE_BYTES, OUTPUT_READ_BYTES, TERMINATE_GRACE_S
from bollard.wire.stream import StreamTransport, connect_socket

PipeName = Literal["stdout", "stderr"]
LineCallback = Callable[[PipeName, str], None]
_FAULT: Final = re.compile(r"(?:Uncaught )?[\w.:]*(?:Error|Exception|panic)\b")
_FIRST_LINE_BYTES: Final = 256
_FRAME: Final = re.compile(r"\s+at ")


def fault_in(lines: Sequence[str]) -> str | None:
    """The line of a program's output that names the error it ended with, and its place. Many languages print the stack
    after it, so it is seldom the last line. `None` if no line looks like one."""
    for index, line in reversed([*enumerate(lines)]):
        if _FAULT.match(line):
            place = lines[index + 1] if index + 1 < len(lines) else ""
            return f"{line} ({place.strip()})" if _FRAME.match(place) else line
    return None


class LineSplitter:
    """Splits the bytes of one pipe into lines of at most `OUTPUT_LINE_BYTES`; a longer line is truncated and marked.

    Lines beyond the limiter's rate are reported as a number, and the newest of them when the output ends.
    """

    def __init__(self, name: PipeName, output: LineCallback, gate: OutputLimiter, clock: Callable[[], float]) -> None:
        self._name: PipeName = name
        self._output = output
        self._gate = gate
        self._clock = clock
        self._line = bytearray()
        self._skipping = False
        self._newest_dropped: deque[str] = deque(maxlen=OUTPUT_LAST_LINES)

    def feed(self, data: bytes) -> None:
        now = self._clock()
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end], now)
            start = end + 1
            if self._skipping:
                self._skipping = False  # its start was reported when it was truncated
            elif not self._report(now):
                start = self._skip(data, start)
        self._add(data[start:], now)

    def end(self) -> None:
        now = self._clock()
        if self._line:
            self._report(now)
        if dropped := self._gate.dropped(now, last=True):
            self._report_dropped(dropped)
        for line in self._newest_dropped:
            self._output(self._name, line)
        self._newest_dropped.clear()

    def _skip(self, data: bytes, start: int) -> int:
        """Skip the complete lines after a dropped one, counting them without checking each one."""
        last = data.rfind(b"\n", start)
        if last < 0:
            return start
        self._gate.drop(data.count(b"\n", start, last + 1))
        for line in data[start:last].rsplit(b"\n", OUTPUT_LAST_LINES)[-OUTPUT_LAST_LINES:]:
            self._newest_dropped.append(_decode_line(line[:OUTPUT_LINE_BYTES], cut=len(line) > OUTPUT_LINE_BYTES))
        return last + 1

    def _add(self, piece: bytes, now: float) -> None:
        if self._skipping:
            return
        room = OUTPUT_LINE_BYTES - len(self._line)
        self._line += piece[:room]
        if len(piece) > room:
            self._skipping = True
            self._report(now)

    def _report(self, now: float) -> bool:
        """Report the line that has ended or was truncated. Returns False if it is dropped."""
        line = _decode_line(self._line, cut=self._skipping)
        self._line.clear()
        if not self._gate.admit(now):
            self._newest_dropped.append(line)
            return False
        if dropped := self._gate.dropped(now):
            self._report_dropped(dropped)
        self._newest_dropped.clear()  # a newer line was reported
        self._output(self._name, line)
        return True

    def _report_dropped(self, lines: int) -> None:
        self._output(self._name, f"[{lines} lines were dropped: the plugin prints too fast]")


def _decode_line(line: bytes | bytearray, *, cut: bool) -> str:
    return line.decode("utf-8", "replace") + (" […cut]" if cut else "")


class PipeReader:
    """Reads one pipe to its end."""

    def __init__(self, file: IO[bytes], lines: LineSplitter, gate: OutputLimiter) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = file
        self._lines = lines
        self._gate = gate
        self._pause: asyncio.TimerHandle | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(file.fileno(), False)
        self._resume()

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._file.fileno(), self._readable)

    def _readable(self) -> None:
        data = self._read()
        if data is None:
            return
        if not data:
            self.close()
            return
        self._lines.feed(data)
        if wait_s := self._gate.read(len(data), self._loop.time()):
            self._loop.remove_reader(self._file.fileno())
            self._pause = self._loop.call_later(wait_s, self._resume)

    def _read(self) -> bytes | None:
        try:
            return os.read(self._file.fileno(), OUTPUT_READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""  # a broken pipe has ended

    def close(self) -> None:
        """Stop reading and report the remaining output."""
        if self.closed.done():
            return
        if self._pause is not None:
            self._pause.cancel()
            self._lines.feed(self._read() or b"")  # the last output of an exited process is still in the pipe
        self._loop.remove_reader(self._file.fileno())
        self._file.close()
        self._lines.end()
        self.closed.set_result(None)


ENVIRONMENT_ALLOWED: Final = frozenset(
    {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ", "USER"}
)
"""The host's variables that every worker gets. The manifest of a plugin names more."""


def worker_environment(inherited: Mapping[str, str], declared: Iterable[str] = ()) -> dict[str, str]:
    """The environment of a worker: the allow-list and the variables of its manifest, but never `BOLLARD_*`."""
    names = ENVIRONMENT_ALLOWED | {name for name in declared if not name.upper().startswith("BOLLARD_")}
    return {name: value for name, value in inherited.items() if name in names}


class ProgramFailed(OSError):
    """The program of a worker cannot be executed. A translation of the message is found by the type of the problem."""

    def __init__(self, program: str, problem: str, problem_type: str) -> None:
        super().__init__(f"{program} {problem}")
        self.program = program
        self.details = {"problem_type": problem_type, "program": program}


class ProgramNotFound(ProgramFailed):
    """There is no such program. A program with a slash is a file of the plugin's folder."""

    def __init__(self, program: str) -> None:
        self.is_file = "/" in program
        if self.is_file:
            super().__init__(program, "is not an executable file in the plugin's folder", "program.not_executable")
        else:
            super().__init__(program, "is not on the PATH", "program.not_on_path")


class ProgramUnusable(ProgramFailed):
    """The system does not execute the file of a program: the interpreter in its first line is missing."""

    def __init__(self, program: str, code: int) -> None:
        if code == errno.ENOENT:
            missing = "names an interpreter in its first line that does not exist, or ends that line like Windows"
            super().__init__(program, missing, "program.interpreter_missing")
        else:
            missing = "has no first line that names an interpreter, such as #!/bin/sh"
            super().__init__(program, missing, "program.no_interpreter")


def check_program(path: str) -> None:
    """Raise `ProgramUnusable` if the system would not execute this file, which a sandbox reports less clearly."""
    with open(path, "rb") as file:
        first = file.read(_FIRST_LINE_BYTES)
    if first.startswith(b"#!"):
        words = first[2:].partition(b"\n")[0].split(b" ")
        interpreter = next((word for word in words if word), b"")
        if not os.path.isfile(interpreter):
            raise ProgramUnusable(path, errno.ENOENT)
    elif not first.startswith(b"\x7fELF"):
        raise ProgramUnusable(path, errno.ENOEXEC)


def _unusable(program: str, error: BaseException) -> ProgramUnusable | None:
    """The cause, if the file of a program is there and cannot be executed. The error of a missing working folder names
    that folder."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOENT, errno.ENOEXEC):
        return None
    return ProgramUnusable(program, error.errno) if error.filename == program and Path(program).is_file() else None


def worker_argv(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> list[str]:
    """The arguments of a process for the command of a plugin. A program with a slash is a file of the plugin's folder;
    another one is searched on the PATH of the worker. Raises `ProgramNotFound`."""
    program, *arguments = command
    if "/" in program:
        path = (folder / program).absolute()  # the process starts in the folder
        if not path.is_file() or not os.access(path, os.X_OK):
            raise ProgramNotFound(program)
        return [str(path), *arguments]
    found = shutil.which(program, path=environment.get("PATH", os.defpath))
    if found is None:
        raise ProgramNotFound(program)
    return [str(Path(found).absolute()), *arguments]


class ChildProcess:
    """A process with its output and its exit, which are independent: a grandchild may keep the pipes open.

    Not asyncio's subprocess: a loop that ends while asyncio starts a process waits for that process forever.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        descriptors: Sequence[int],
        output: LineCallback | None,
        cwd: Path | None = None,
        own_session: bool = True,
        standard: tuple[int, int, int] | None = None,
    ) -> None:
        """Start the process. It inherits only these descriptors. `output` gets its stdout and stderr as
        lines; without it they go to the host's. `standard` are used as its stdin, stdout and stderr instead. Without
        `own_session`, `kill` ends only the process. Raises `OSError`."""
        self._own_session = own_session
        self._loop = asyncio.get_running_loop()
        pipe = None if output is None else subprocess.PIPE
        stdin, stdout, stderr = standard or (subprocess.DEVNULL, pipe, pipe)
        self._process = subprocess.Popen(  # noqa: S603 -- our own module, or the command of an installed plugin
            argv,
            bufsize=0,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=environment,
            pass_fds=tuple(descriptors),
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

    def terminate(self) -> None:
        """Ask the process group to end, unless the process has exited."""
        if not self.exited.done():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGTERM)

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
        self._pid = child.pid
        child.exited.add_done_callback(lambda _: self._release_channel())

    @property
    def pid(self) -> int:
        """The worker itself, once it is identified; before that, the process that was started."""
        return self._pid

    def identify(self, pid: int) -> None:
        """The process that was started waits for another one, which is the worker."""
        self._pid = pid

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
                return "the worker has closed its connection"
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
    descriptors: Sequence[int] = (),
) -> WorkerProcess:
    """Start a worker that inherits its connection and `descriptors`; `output` gets its stdout and stderr as lines.
    Raises `OSError`."""
    ours, theirs = socket.socketpair()
    try:
        child = ChildProcess(
            argv,
            environment={**environment, CHANNEL_FD_VARIABLE: str(theirs.fileno())},
            descriptors=(theirs.fileno(), *descriptors),
            output=output,
            cwd=cwd,
        )
    except BaseException as error:
        ours.close()
        theirs.close()
        if (unusable := _unusable(argv[0], error)) is not None:
            raise unusable from error
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

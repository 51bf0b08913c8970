"""Runs a program in a jail: starts it, reads its output up to a limit, and kills it with everything it started.

The confinement comes from `probe`. Knows nothing about tools and runs.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from bollard.confine.cgroup import make_group, remove_group
from bollard.confine.cgroup_places import find_pids_group
from bollard.confine.errors import JailBroken, OverLimit
from bollard.confine.limits import KILL_S, ORDER_BYTES, PRINTED_BYTES, STATUS_BYTES, WATCH_S
from bollard.confine.order import JailLimits, JailOrder, system_places
from bollard.confine.probe import Confinement

_JAIL: Final = (sys.executable, "-I", "-m", "bollard.confine.jail")
_REMOVALS: Final = 50
_REMOVAL_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program, its folders and its limits."""

    argv: tuple[str, ...]
    """The program by its absolute path, and its arguments."""
    cwd: Path
    writable: tuple[Path, ...]
    """Folders that it may read and write. Besides these it can only read the system's programs."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    stdin: bytes = b""
    timeout_s: float
    output_bytes: int
    """The part of each output that is returned, from the beginning."""
    limits: JailLimits = field(default_factory=JailLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """How a program ended, and its output."""

    code: int | None
    """The exit code, or the negative signal number; `None` if the host stopped the program."""
    stopped: str | None = None
    """Why the host stopped the program: `timeout`, `output`, or the word of the watcher."""
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    """Total bytes printed."""
    stderr_bytes: int


async def run_confined(
    program: Program, confinement: Confinement, *, watch: Callable[[], str | None] | None = None
) -> ProgramResult:
    """Run a program to its end. `watch` is polled in a thread; if it returns a word, the program is stopped.

    Cancelling the task kills the program and everything it started. Raises `LevelMissing` or `JailBroken` if the
    program was not started.
    """
    level = confinement.demanded()
    group = await asyncio.to_thread(_make_process_group, program.limits.processes)
    try:
        with _open_descriptors() as (reading, status, order_descriptor):
            order = JailOrder(
                level=level,
                namespaces=confinement.namespaces,
                bubblewrap=confinement.bubblewrap,
                argv=program.argv,
                cwd=str(program.cwd),
                environment=program.environment,
                readable=system_places(),
                writable=tuple(str(path) for path in program.writable),
                group="" if group is None else str(group),
                parent=os.getpid(),
                status=status,
                limits=program.limits,
            )
            _write_order(order_descriptor, order)
            output = await _run(program, order_descriptor, status, watch)
            status_text = os.read(reading, STATUS_BYTES) if output.stopped is None else b""
        return _build_result(status_text, output)
    finally:
        if group is not None:
            await asyncio.shield(_remove_process_group(group))


class _Output(asyncio.SubprocessProtocol):
    """The output of a program up to a limit, and its end."""

    def __init__(self, limit: int) -> None:
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Resolves when every process that held the pipes has ended."""
        self.too_much: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.stopped: str | None = None
        self.content = {1: bytearray(), 2: bytearray()}
        self.printed = {1: 0, 2: 0}
        self._limit = limit
        self._open = {1, 2}
        self._exited = False

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.content[fd] += data[: self._limit - len(self.content[fd])]
        self.printed[fd] += len(data)
        if sum(self.printed.values()) > PRINTED_BYTES and not self.too_much.done():
            self.too_much.set_result(None)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        del exc  # a broken pipe has ended
        self._open.discard(fd)
        self._check_end()

    def process_exited(self) -> None:
        self._exited = True
        self._check_end()

    def _check_end(self) -> None:
        if self._exited and not self._open and not self.gone.done():
            self.gone.set_result(None)


async def _run(program: Program, order: int, status: int, watch: Callable[[], str | None] | None) -> _Output:
    try:
        transport, protocol = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Output(program.output_bytes),
            *_JAIL,
            str(order),
            stdin=PIPE if program.stdin else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd="/",
            env={"LANG": "C.UTF-8"},
            pass_fds=(order, status),
            start_new_session=True,
        )
    except OSError as error:
        raise _start_error(error) from error
    watching = asyncio.create_task(_poll_watch(watch)) if watch is not None else None
    try:
        if program.stdin:
            pipe = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
            pipe.write(program.stdin)
            pipe.close()
        waited = {protocol.gone, protocol.too_much, *(() if watching is None else (watching,))}
        await asyncio.wait(waited, timeout=program.timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not protocol.gone.done():
            if protocol.too_much.done():
                protocol.stopped = "output"
            else:
                protocol.stopped = watching.result() if watching is not None and watching.done() else "timeout"
    finally:
        if watching is not None:
            watching.cancel()
        _kill(transport.get_pid())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(protocol.gone), KILL_S)
        transport.close()
    return protocol


async def _poll_watch(watch: Callable[[], str | None]) -> str:
    while True:
        await asyncio.sleep(WATCH_S)
        word = await asyncio.to_thread(watch)
        if word is not None:
            return word


def _kill(leader: int) -> None:
    """Kill the process group of the jail. Safe after it was reaped: a pid is not reused while its group exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


@contextlib.contextmanager
def _open_descriptors() -> Generator[tuple[int, int, int]]:
    """Open the read end and the write end of the status pipe, and the file of the order."""
    try:
        reading, status = os.pipe()
        order = os.memfd_create("order")
    except OSError as error:
        raise _start_error(error) from error
    os.set_blocking(reading, False)
    os.set_blocking(status, False)
    try:
        yield reading, status, order
    finally:
        for descriptor in (reading, status, order):
            os.close(descriptor)


def _make_process_group(processes: int) -> Path | None:
    place = find_pids_group()
    try:
        return None if place is None else make_group(place, processes)
    except OSError as error:
        raise _start_error(error) from error


def _start_error(error: OSError) -> JailBroken:
    return JailBroken(f"the program could not be started: {error}", hint="see `bollard doctor`, and check open files")


def _write_order(descriptor: int, order: JailOrder) -> None:
    text = order.encode()
    if len(text) > ORDER_BYTES:
        raise OverLimit(
            f"the command is longer than {ORDER_BYTES} bytes", hint="put long content into a file of the folder"
        )
    os.write(descriptor, text)
    os.lseek(descriptor, 0, os.SEEK_SET)


def _build_result(status_text: bytes, output: _Output) -> ProgramResult:
    code: int | None = None
    if output.stopped is None:
        first = json.loads(status_text.split(b"\n", 1)[0] or b'{"problem": "the jail sent no report", "code": null}')
        if first["problem"] is not None:
            raise JailBroken(
                f"the program could not be started: {first['problem']}", hint="check the sandbox with `bollard doctor`"
            )
        code = first["code"]
    return ProgramResult(
        code=code,
        stopped=output.stopped,
        stdout=bytes(output.content[1]),
        stderr=bytes(output.content[2]),
        stdout_bytes=output.printed[1],
        stderr_bytes=output.printed[2],
    )


async def _remove_process_group(group: Path) -> None:
    """Remove the control group, with retries: a killed process may take a moment to leave it."""
    for _ in range(_REMOVALS):
        if remove_group(group):
            return
        await asyncio.sleep(_REMOVAL_S)

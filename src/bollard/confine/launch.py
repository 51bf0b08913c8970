"""Run a program in a jail: start it, read what it prints up to a cap, and end it with everything it started.

Knows nothing of tools and runs. Which level there is, `probing` found out.
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

from bollard.confine.cgroup import make_group, pids_place, remove_group
from bollard.confine.errors import JailBroken, OverLimit
from bollard.confine.limits import KILL_S, ORDER_BYTES, PRINTED_BYTES, STATUS_BYTES, WATCH_S
from bollard.confine.order import JailLimits, JailOrder, system_places
from bollard.confine.probing import Walls

__all__ = ["Ended", "Program", "run_confined"]

_JAIL: Final = (sys.executable, "-I", "-m", "bollard.confine.jail")
_REMOVALS: Final = 50
_REMOVAL_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run, where, and how far it may go."""

    argv: tuple[str, ...]
    """The program by its absolute path, and its arguments."""
    cwd: Path
    writable: tuple[Path, ...]
    """Folders that it may read and write. Everything else but the system's programs is out of its reach."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    stdin: bytes = b""
    timeout_s: float
    output_bytes: int
    """What is kept of each of its outputs, from the beginning."""
    limits: JailLimits = field(default_factory=JailLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What came of it."""

    code: int | None
    """Its exit code, or a signal below zero; nothing where it was stopped from here."""
    stopped: str | None = None
    """Why it was stopped from here: `timeout`, `output`, or what the watcher said."""
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    """Printed in all."""
    stderr_bytes: int


async def run_confined(program: Program, walls: Walls, *, watch: Callable[[], str | None] | None = None) -> Ended:
    """Runs it to its end. `watch` is asked now and then, in a thread; a word from it stops the program.

    A task that is cancelled takes the program and everything it started with it. Raises `LevelMissing` or `JailBroken`
    when the program was not started.
    """
    level = walls.demanded()
    group = await asyncio.to_thread(_grouped, program.limits.processes)
    try:
        with _descriptors() as (reading, status, order_descriptor):
            order = JailOrder(
                level=level,
                namespaces=walls.namespaces,
                bubblewrap=walls.bubblewrap,
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
            told = os.read(reading, STATUS_BYTES) if output.stopped is None else b""
        return _ended(told, output)
    finally:
        if group is not None:
            await asyncio.shield(_removed(group))


class _Output(asyncio.SubprocessProtocol):
    """What a jail's program prints, up to a cap, and its end."""

    def __init__(self, keep: int) -> None:
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Everything that held its pipes has ended."""
        self.too_much: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.stopped: str | None = None
        self.kept = {1: bytearray(), 2: bytearray()}
        self.printed = {1: 0, 2: 0}
        self._keep = keep
        self._open = {1, 2}
        self._exited = False

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.kept[fd] += data[: self._keep - len(self.kept[fd])]
        self.printed[fd] += len(data)
        if sum(self.printed.values()) > PRINTED_BYTES and not self.too_much.done():
            self.too_much.set_result(None)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        del exc  # a pipe that broke has ended too
        self._open.discard(fd)
        self._look()

    def process_exited(self) -> None:
        self._exited = True
        self._look()

    def _look(self) -> None:
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
        raise _not_started(error) from error
    watching = asyncio.create_task(_watched(watch)) if watch is not None else None
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


async def _watched(watch: Callable[[], str | None]) -> str:
    while True:
        await asyncio.sleep(WATCH_S)
        word = await asyncio.to_thread(watch)
        if word is not None:
            return word


def _kill(leader: int) -> None:
    """The jail leads its group. Once it was waited for, its number may belong to somebody else: then there is no such
    group, because a number is not given again while a group has it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


@contextlib.contextmanager
def _descriptors() -> Generator[tuple[int, int, int]]:
    """Where the jail's word arrives, where it is said, and the order."""
    try:
        reading, status = os.pipe()
        order = os.memfd_create("order")
    except OSError as error:
        raise _not_started(error) from error
    os.set_blocking(reading, False)
    os.set_blocking(status, False)
    try:
        yield reading, status, order
    finally:
        for descriptor in (reading, status, order):
            os.close(descriptor)


def _grouped(processes: int) -> Path | None:
    place = pids_place()
    try:
        return None if place is None else make_group(place, processes)
    except OSError as error:
        raise _not_started(error) from error


def _not_started(error: OSError) -> JailBroken:
    return JailBroken(f"the program could not be started: {error}", hint="look at `bollard doctor`, and at open files")


def _write_order(descriptor: int, order: JailOrder) -> None:
    text = order.encode()
    if len(text) > ORDER_BYTES:
        raise OverLimit(
            f"the command is longer than {ORDER_BYTES} bytes", hint="put long content into a file of the folder"
        )
    os.write(descriptor, text)
    os.lseek(descriptor, 0, os.SEEK_SET)


def _ended(told: bytes, output: _Output) -> Ended:
    code: int | None = None
    if output.stopped is None:
        first = json.loads(told.split(b"\n", 1)[0] or b'{"problem": "it ended without a word", "code": null}')
        if first["problem"] is not None:
            raise JailBroken(
                f"the program could not be started: {first['problem']}", hint="look at `bollard doctor` for the sandbox"
            )
        code = first["code"]
    return Ended(
        code=code,
        stopped=output.stopped,
        stdout=bytes(output.kept[1]),
        stderr=bytes(output.kept[2]),
        stdout_bytes=output.printed[1],
        stderr_bytes=output.printed[2],
    )


async def _removed(group: Path) -> None:
    """A killed process may need a moment to leave its group."""
    for _ in range(_REMOVALS):
        if remove_group(group):
            return
        await asyncio.sleep(_REMOVAL_S)

"""The process around a confined program: `python -m bollard.confine.jail DESCRIPTOR`.

It reads its order from the descriptor, builds the walls, starts the program inside, says what came of it, and takes
everything that the program started with it when it goes. It holds nothing but the standard library.
"""

import contextlib
import json
import os
import resource
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from bollard.confine.bubblewrap import bubblewrap_line
from bollard.confine.kernel import clear_capabilities, prctl
from bollard.confine.landlock import restrict
from bollard.confine.limits import ORDER_BYTES
from bollard.confine.namespaces import enter
from bollard.confine.order import DEVICES, JailOrder
from bollard.confine.seccomp import install, jail_filter

__all__ = ["main"]

_PR_SET_PDEATHSIG: Final = 1
_SIGNALLED: Final = 128
_BROKEN: Final = 125


def main(argv: list[str]) -> NoReturn:
    """One program, from its order to its end."""
    descriptor = int(argv[1])
    order = JailOrder.decode(_read(descriptor))
    os.close(descriptor)
    os.set_inheritable(order.status, False)
    try:
        _stay_with(order.parent)
        if order.group:
            Path(order.group, "cgroup.procs").write_text("0")
        if order.level == "landlock+seccomp" and order.namespaces:
            enter(order.writable)
            _in_own_pids(order)
        else:
            _supervise(order)
    except OSError as error:
        _tell(order.status, problem=str(error))
    _end_all()


def _in_own_pids(order: JailOrder) -> None:
    """The child is the first process of its namespace: with it, all others there go."""
    first = os.fork()
    if first == 0:
        try:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            _supervise(order)
        finally:
            os._exit(0)
    os.waitpid(first, 0)


def _supervise(order: JailOrder) -> None:
    """Start the program, wait for it, and bury whoever has lost their parent."""
    program = os.fork()
    if program == 0:
        _become(order)
    while True:
        ended, status = os.wait()
        if ended == program:
            break
    # After a problem nobody reads it: the first word counts.
    _tell(order.status, code=_code(order, os.waitstatus_to_exitcode(status)))


def _code(order: JailOrder, code: int) -> int:
    """Bubblewrap says as a shell does that a signal ended the program."""
    ended_by = code - _SIGNALLED
    return -ended_by if order.level == "bubblewrap" and 0 < ended_by < signal.NSIG else code


def _become(order: JailOrder) -> NoReturn:
    """Everything from here on is in the child, up to the program."""
    try:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.chdir(order.cwd)
        _limit(order)
        if order.level == "bubblewrap":
            _wrap(order)
        else:
            clear_capabilities()
            restrict(readable=order.readable, writable=order.writable, devices=DEVICES)
            install(jail_filter(namespaces=order.namespaces))
            os.execve(order.argv[0], order.argv, order.environment)  # noqa: S606 - this is what a jail is for
    except BaseException as error:  # noqa: BLE001 - nothing may come back from here
        with contextlib.suppress(OSError):
            _tell(order.status, problem=f"{type(error).__name__}: {error}")
    os._exit(_BROKEN)


def _wrap(order: JailOrder) -> None:
    os.stat(order.argv[0])  # bubblewrap would say of itself that it failed, and nobody could tell whose failure it is
    reading, writing = os.pipe()
    os.write(writing, jail_filter(namespaces=True))  # smaller than a pipe
    os.close(writing)
    os.set_inheritable(reading, True)
    line = bubblewrap_line(order, reading)
    os.execve(line[0], line, {})  # noqa: S606 - this is what a jail is for


def _limit(order: JailOrder) -> None:
    limits = order.limits
    for kind, most in (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, limits.processes + (0 if order.namespaces else _processes_of_user())),
    ):
        _, ceiling = resource.getrlimit(kind)
        least = most if ceiling == resource.RLIM_INFINITY else min(most, ceiling)
        resource.setrlimit(kind, (least, least))


def _processes_of_user() -> int:
    """Threads that this user has already: without a namespace they count too."""
    user, found = os.geteuid(), 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if folder.stat().st_uid == user:
                    found += len(os.listdir(folder / "task"))
    return found


def _stay_with(parent: int) -> None:
    """When the host goes, so does everything in here."""
    signal.signal(signal.SIGTERM, _ended_by_signal)
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        _end_all()


def _ended_by_signal(_number: int, _frame: FrameType | None) -> None:
    _end_all()


def _end_all() -> NoReturn:
    """The jail leads its process group, and nobody inside can leave it without a namespace that ends with us."""
    os.killpg(0, signal.SIGKILL)
    os._exit(_BROKEN)


def _tell(descriptor: int, *, code: int | None = None, problem: str | None = None) -> None:
    os.write(descriptor, json.dumps({"code": code, "problem": problem}).encode() + b"\n")


def _read(descriptor: int) -> bytes:
    text = b""
    while len(text) <= ORDER_BYTES and (piece := os.read(descriptor, ORDER_BYTES)):
        text += piece
    return text


if __name__ == "__main__":
    main(sys.argv)

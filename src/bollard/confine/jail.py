"""The process around a confined program: `python -m bollard.confine.jail DESCRIPTOR`.

It reads its order from the descriptor, applies the confinement, starts the program inside, reports its exit code, and
kills everything that the program started. It imports only the standard library.
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

from bollard.confine.kernel import clear_capabilities, enter_namespaces, prctl
from bollard.confine.landlock import restrict
from bollard.confine.limits import ORDER_BYTES
from bollard.confine.order import DEVICES, JailOrder
from bollard.confine.seccomp import install, jail_filter


def bubblewrap_line(order: JailOrder, filter_descriptor: int) -> list[str]:
    """Return the command line of bubblewrap for an order. The program sees only the named paths. Pure."""
    line = [order.bubblewrap, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--clearenv"]
    for path in order.readable:
        if os.path.islink(path):
            line += ["--symlink", os.readlink(path), path]
        else:
            line += ["--ro-bind-try", path, path]
    # Bubblewrap's root and devices are in memory that no limit counts, so they are read-only.
    line += ["--dev", "/dev", "--remount-ro", "/dev"]
    for path in order.writable:
        line += ["--bind", path, path]
    line += ["--remount-ro", "/"]
    for name, value in order.environment.items():
        line += ["--setenv", name, value]
    return [*line, "--chdir", order.cwd, "--seccomp", str(filter_descriptor), "--", *order.argv]


_PR_SET_PDEATHSIG: Final = 1
_SIGNALLED: Final = 128
_BROKEN: Final = 125


def main(argv: list[str]) -> NoReturn:
    """Run one program from its order to its end."""
    descriptor = int(argv[1])
    order = JailOrder.decode(_read_order(descriptor))
    os.close(descriptor)
    os.set_inheritable(order.status, False)
    try:
        _end_with_parent(order.parent)
        if order.group:
            Path(order.group, "cgroup.procs").write_text("0")
        if order.level == "landlock+seccomp" and order.namespaces:
            enter_namespaces(order.writable)
            _supervise_in_namespace(order)
        else:
            _supervise(order)
    except OSError as error:
        _report(order.status, problem=str(error))
    _end_all()


def _supervise_in_namespace(order: JailOrder) -> None:
    """Supervise from the first process of a new namespace: its end kills all others there."""
    first = os.fork()
    if first == 0:
        try:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            _supervise(order)
        finally:
            os._exit(0)
    os.waitpid(first, 0)


def _supervise(order: JailOrder) -> None:
    """Start the program, wait for it, and reap orphaned processes."""
    program = os.fork()
    if program == 0:
        _execute_program(order)
    while True:
        ended, status = os.wait()
        if ended == program:
            break
    # The host reads the first report only, so this one is ignored after a problem.
    _report(order.status, code=_translate_code(order, os.waitstatus_to_exitcode(status)))


def _translate_code(order: JailOrder, code: int) -> int:
    """Translate the exit code of bubblewrap, which reports signals like a shell."""
    ended_by = code - _SIGNALLED
    return -ended_by if order.level == "bubblewrap" and 0 < ended_by < signal.NSIG else code


def _execute_program(order: JailOrder) -> NoReturn:
    """Apply limits and confinement in the child, then execute the program."""
    try:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.chdir(order.cwd)
        _limit(order)
        if order.level == "bubblewrap":
            _execute_bubblewrap(order)
        else:
            clear_capabilities()
            restrict(readable=order.readable, writable=order.writable, devices=DEVICES)
            install(jail_filter(namespaces=order.namespaces))
            os.execve(order.argv[0], order.argv, order.environment)  # noqa: S606 - this is what a jail is for
    except BaseException as error:  # noqa: BLE001 - nothing may come back from here
        with contextlib.suppress(OSError):
            _report(order.status, problem=f"{type(error).__name__}: {error}")
    os._exit(_BROKEN)


def _execute_bubblewrap(order: JailOrder) -> None:
    os.stat(order.argv[0])  # otherwise a missing program looks like a failure of bubblewrap
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
    """Count the threads of this user: without a namespace they count against the limit."""
    user, found = os.geteuid(), 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if folder.stat().st_uid == user:
                    found += len(os.listdir(folder / "task"))
    return found


def _end_with_parent(parent: int) -> None:
    """End the jail when the host exits."""
    signal.signal(signal.SIGTERM, _ended_by_signal)
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        _end_all()


def _ended_by_signal(_number: int, _frame: FrameType | None) -> None:
    _end_all()


def _end_all() -> NoReturn:
    """Kill the process group. No process inside can leave it, except into a namespace that ends with the jail."""
    os.killpg(0, signal.SIGKILL)
    os._exit(_BROKEN)


def _report(descriptor: int, *, code: int | None = None, problem: str | None = None) -> None:
    os.write(descriptor, json.dumps({"code": code, "problem": problem}).encode() + b"\n")


def _read_order(descriptor: int) -> bytes:
    text = b""
    while len(text) <= ORDER_BYTES and (piece := os.read(descriptor, ORDER_BYTES)):
        text += piece
    return text


if __name__ == "__main__":
    main(sys.argv)

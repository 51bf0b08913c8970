"""The process that confines itself and then executes a program: `launch_process.main(DESCRIPTOR)`.

It reads its order from the descriptor. Without namespaces it becomes the program. With namespaces it stays as the
parent of the first process in there, which reaps orphans; all three end together. It imports only the standard library.
"""

import contextlib
import fcntl
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Iterable
from types import FrameType
from typing import Final, NoReturn

from bollard.confine.kernel import clear_capabilities, deny_inspection, prctl, separate_namespaces
from bollard.confine.landlock import restrict
from bollard.confine.launch_order import HOME, PROXY_PORT, SHARED, TEMPORARY, LaunchOrder
from bollard.confine.limits import LAUNCH_BACKLOG, ORDER_BYTES
from bollard.confine.order import DEVICES
from bollard.confine.seccomp import Sockets, install, launch_filter
from bollard.confine.view import enter_view

EXIT_BROKEN: Final = 125
_PR_SET_PDEATHSIG: Final = 1
_NO_DUMP: Final = 1
"""The size of a memory dump. With 0 the kernel still pipes dumps to a program, if the machine has one for them."""
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1
_STANDARD: Final = (0, 1, 2)


def main(descriptor: int) -> NoReturn:
    """Run one program from its order. A problem is printed, and ends the process with `EXIT_BROKEN`."""
    try:
        order = _read_order(descriptor)
        for group in order.groups:
            with open(f"{group}/cgroup.procs", "w", encoding="utf-8") as file:
                file.write("0")
        if order.namespaces:
            separate_namespaces()
            if order.proxy is not None:
                _send_listener(order.proxy)
            _supervise(order)
        else:
            _execute(order)
    except BaseException as error:  # noqa: BLE001 - nothing may come back from here
        _report(error)
    os._exit(EXIT_BROKEN)


def _send_listener(control: int) -> None:
    """Bring up the loopback of the network namespace, and send a socket that listens on it. The parent accepts its
    connections although it is in another namespace."""
    import socket  # noqa: PLC0415 -- takes a tenth of a launch, and most workers have no network

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener, socket.socket(fileno=control) as parent:
        request = struct.pack("16sh22x", b"lo", _IFF_UP)
        fcntl.ioctl(listener, _SIOCSIFFLAGS, request)
        listener.bind(("127.0.0.1", PROXY_PORT))
        listener.listen(LAUNCH_BACKLOG)
        socket.send_fds(parent, [b"."], [listener.fileno()])


def _supervise(order: LaunchOrder) -> NoReturn:
    """Wait for the first process of the namespace, and end like the program. No filter binds the two processes that
    wait, so no program may take them over, or read from their memory what the order says."""
    deny_inspection()
    reading, writing = os.pipe()
    nothing = os.open(os.devnull, os.O_RDWR)  # now: the first process moves the root of this one, too
    first = os.fork()
    if first == 0:
        os.close(reading)
        _serve_as_first(order, writing, nothing)
    os.close(writing)
    clear_capabilities()
    _end_after_parent(order)
    _let_go(reading, nothing)
    status_text = os.read(reading, struct.calcsize("i"))
    with contextlib.suppress(ChildProcessError):
        os.waitpid(first, 0)
    if status_text:
        _end_like(struct.unpack("i", status_text)[0])
    os._exit(EXIT_BROKEN)


def _end_after_parent(order: LaunchOrder) -> None:
    """End some time after the parent, and with this process everything in the namespace."""

    def ended(_number: int, _frame: FrameType | None) -> None:
        time.sleep(order.grace_s)
        os._exit(EXIT_BROKEN)

    signal.signal(signal.SIGUSR1, ended)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to the group, it ends the program and then this process
    prctl(_PR_SET_PDEATHSIG, signal.SIGUSR1)
    if os.getppid() != order.parent:
        os._exit(EXIT_BROKEN)


def _serve_as_first(order: LaunchOrder, writing: int, nothing: int) -> NoReturn:
    """Start the program and reap orphans until it ends. The end of this process ends all others of the namespace."""
    try:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        enter_view(order)
        program = os.fork()
        if program == 0:
            os.close(writing)
            _execute(order)
        _let_go(writing, nothing)
        clear_capabilities()
        while True:
            ended, status = os.wait()
            if ended == program:
                os.write(writing, struct.pack("i", status))
                break
    except BaseException as error:  # noqa: BLE001 - nothing may come back from here
        _report(error)
    os._exit(EXIT_BROKEN)


def _end_like(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (_NO_DUMP, _NO_DUMP))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _execute(order: LaunchOrder) -> NoReturn:
    """Apply limits and confinement to this process, then execute the program."""
    try:
        if order.namespaces or not order.grace_s:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if not order.namespaces and os.getppid() != order.parent:
                os._exit(EXIT_BROKEN)
        named = {each: os.environ[each] for each in (order.descriptor_variable,) if each}
        inherited = [int(each) for each in named.values()]
        _close_all(keep=(*inherited, *_STANDARD))
        _limit(order)
        os.chdir(order.cwd)
        clear_capabilities()
        if order.landlock:
            own = (HOME, TEMPORARY, SHARED) if order.namespaces else ()
            readable = (*order.readable, "/proc", "/dev/fd") if order.namespaces else order.readable
            restrict(
                readable=readable,
                writable=(*order.writable, *own),
                devices=DEVICES,
                exact=frozenset(order.exact),
                ports=() if order.proxy_port is None else (order.proxy_port,),
                network=order.namespaces,
            )
        if order.seccomp:
            install(
                launch_filter(
                    namespaces=order.namespaces, sockets=_sockets(order), may_leave_session=order.may_leave_session
                )
            )
        for descriptor in inherited:
            os.set_inheritable(descriptor, True)
        os.execve(order.argv[0], order.argv, {**order.environment, **named})  # noqa: S606 - this is what a launch is for
    except BaseException as error:  # noqa: BLE001 - nothing may come back from here
        _report(error)
    os._exit(EXIT_BROKEN)


def _sockets(order: LaunchOrder) -> Sockets:
    """The sockets of the program. No rule on files restricts Unix sockets, so it has these only where it sees none of
    others: in its own namespaces, and without folders that others write to."""
    if order.namespaces and order.exact:
        return "internet"
    if order.namespaces:
        return "own"
    return "none" if order.proxy_port is None else "loopback"


def _limit(order: LaunchOrder) -> None:
    limits = order.limits
    bounds = {
        resource.RLIMIT_CORE: _NO_DUMP,
        resource.RLIMIT_DATA: limits.memory_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
    }
    if not order.namespaces:
        bounds[resource.RLIMIT_FSIZE] = limits.home_bytes
    for kind, bound in bounds.items():
        hard = resource.getrlimit(kind)[1]
        allowed = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (allowed, allowed))


def _let_go(kept: int, nothing: int) -> None:
    """Close everything but stderr and one descriptor: only the program shows when a pipe ends."""
    for standard in (0, 1):
        os.dup2(nothing, standard)
    _close_all(keep=(kept, *_STANDARD))


def _close_all(keep: Iterable[int]) -> None:
    """Close every other descriptor."""
    before = -1
    for kept in (*sorted(set(keep)), os.sysconf("SC_OPEN_MAX")):
        if before + 1 < kept:  # an empty range that begins at 0 would close every descriptor
            os.closerange(before + 1, kept)
        before = kept


def _report(error: BaseException) -> None:
    os.write(2, f"bollard: the sandbox could not be set up: {type(error).__name__}: {error}\n".encode())


def _read_order(descriptor: int) -> LaunchOrder:
    with os.fdopen(descriptor, "rb") as file:
        return LaunchOrder.decode(file.read(ORDER_BYTES))


if __name__ == "__main__":
    main(int(sys.argv[1]))

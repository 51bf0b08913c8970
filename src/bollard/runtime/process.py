"""The process of a worker: its forked children, its parent, its stderr and its restart."""

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Final, NoReturn

from bollard.runtime.limits import EXIT_GRACE_S


def detach_forked_children(channel: int | None) -> None:
    """Detach every forked child from the worker: its connection, its signal handlers and its log output.

    For `os.fork` and `multiprocessing`: a child that executes another program inherits none of these.
    """
    worker = os.getpid()

    def detach() -> None:
        if os.getppid() != worker:
            return  # a grandchild: its parent is detached and may have reused the descriptor number
        if channel is not None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, channel, inheritable=False)
            os.close(null)
        with contextlib.suppress(ValueError):  # only the main thread may set handlers; other threads have none
            # The loop's wake-up pipe is shared: a signal to the child would look like a signal to the worker.
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__

    os.register_at_fork(after_in_child=detach)


_PARENT_CHECK_S: Final = 1.0
_PARENT_MARGIN_S: Final = 1.0


def watch_parent() -> None:
    """Kill the process group when the host has died and the grace is over.

    A healthy worker notices the closed connection itself. This thread ends a worker whose loop is blocked by plugin
    code or by an import that never returns.
    """
    threading.Thread(target=_watch_parent, args=(os.getppid(),), name="bollard-parent", daemon=True).start()


def _watch_parent(parent: int) -> None:
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(_PARENT_CHECK_S)
    pause.wait(EXIT_GRACE_S + _PARENT_MARGIN_S)
    if os.getpgrp() == os.getpid():  # the host made this process the leader of its group
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def write_stderr(text: str) -> None:
    """Write to the real stderr: plugin code may have replaced Python's."""
    with contextlib.suppress(OSError):
        os.write(2, f"bollard: {text}\n".encode("utf-8", "replace"))


def restart() -> NoReturn:
    """Replace this process after a remote runtime lost its host, as a host would replace a local worker.

    Nothing of the plugin code keeps running, and changed code is loaded.
    """
    _end_children()
    rest = sys.orig_argv[1:]
    at = rest.index("bollard.runtime") + 1
    if rest[at : at + 1] != ["--again"]:  # before the arguments: a command may follow them
        rest.insert(at, "--again")
    os.execv(sys.executable, [sys.executable, *rest])  # noqa: S606


def _end_children() -> None:
    """Kill the children: they would survive the restart with no one to wait for them."""
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError, ValueError):  # already exited, or a system without this file
            for child in map(int, task.read_text().split()):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)

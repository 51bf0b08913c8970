"""Parts a forked child from the worker: it must not hold the channel, answer the worker's signals, or write its logs.

A child that executes another program inherits nothing anyway; this is for `os.fork` and `multiprocessing`.
"""

import contextlib
import os
import signal
import sys

__all__ = ["part_children"]


def part_children(channel: int | None) -> None:
    """From now on, each child that is forked from this process gives up the descriptor `channel`."""
    worker = os.getpid()

    def part() -> None:
        if os.getppid() != worker:
            return  # a grandchild: its parent has parted, and may use the number for something else
        if channel is not None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, channel, inheritable=False)
            os.close(null)
        with contextlib.suppress(ValueError):  # only a main thread may; any other has no signals to answer
            # The loop's wake-up pipe is shared: a signal to the child would be taken for one to the worker.
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__

    os.register_at_fork(after_in_child=part)

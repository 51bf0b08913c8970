"""Ends a worker whose host died. A worker that is well notices the closed channel by itself; this is for one that is
blocked, in plugin code that never gives the loop back or in an import that never ends."""

import os
import signal
import threading
from typing import Final

from bollard.runtime.limits import EXIT_GRACE_S

__all__ = ["watch_parent"]

_LOOK_S: Final = 1.0
_MARGIN_S: Final = 1.0


def watch_parent() -> None:
    """Start to watch; the process group is killed when the parent is gone and the grace is over."""
    threading.Thread(target=_watch, args=(os.getppid(),), name="bollard-parent", daemon=True).start()


def _watch(parent: int) -> None:
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(_LOOK_S)
    pause.wait(EXIT_GRACE_S + _MARGIN_S)
    if os.getpgrp() == os.getpid():  # the host made this process the head of its own group
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)

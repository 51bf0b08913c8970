"""`python -m bollard.knowledge FD`: the knowledge process. The host starts it with one end of a socket pair; it ends
with that socket, or with the host."""

import ctypes
import gc
import logging
import os
import signal
import socket
import sys
from typing import Final

from bollard.knowledge.serving import HostGone, Line, serve
from bollard.wire.knowledge_frames import HOST_PID_VARIABLE

_PR_SET_PDEATHSIG: Final = 1
_COLLECT_AFTER: Final = 20_000


def main(arguments: list[str]) -> int:
    """Serve one host."""
    host = os.environ.pop(HOST_PID_VARIABLE, "")
    if len(arguments) != 1 or not arguments[0].isdecimal() or not host.isdecimal():
        sys.stderr.write("the host starts this by itself\n")
        return 2
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the host decides when to stop, and says so
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(host):
        return 1
    logging.disable(logging.CRITICAL)  # libraries set up logging of their own
    gc.freeze()  # what is loaded by now stays
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
    with socket.socket(fileno=int(arguments[0])) as connection:
        connection.set_inheritable(False)
        try:
            return serve(Line(connection))
        except HostGone:
            return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

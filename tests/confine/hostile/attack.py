"""The hostile program. It reads its targets from its connection, and tries each probe in a child of its own.

It prints one line of JSON for each probe. A probe returns True if it reached its goal, and False or an `OSError` if it
did not; anything else is an error of the probe itself, and counts as broken. So does a time-out, which proves no wall.
"""

import ctypes
import errno
import json
import os
import platform
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

from bollard.confine.kernel import SYSCALLS

PROBE_S: Final = 20
REACHED, STOPPED, BROKEN, TIMED_OUT = 0, 1, 2, 3
Targets = dict[str, Any]
Attempt = Callable[[Targets], object]
ATTEMPTS: Final[dict[str, Attempt]] = {}

_COLUMN: Final = 0 if platform.machine() == "x86_64" else 1
_MORE: Final = {
    "fchmodat2": (452, 452),
    "inotify_add_watch": (254, 27),
    "kill": (62, 129),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "sendto": (44, 206),
    "tgkill": (234, 131),
}
"""Calls that the confinement names nowhere."""
_libc: Final = ctypes.CDLL(None, use_errno=True)


def attempt(function: Attempt) -> Attempt:
    """Add a probe under the name of its function."""
    ATTEMPTS[function.__name__] = function
    return function


def call(name: str, *arguments: object) -> int:
    """Make a system call. Raises `OSError`."""
    number = (_MORE.get(name) or SYSCALLS[name])[_COLUMN]
    if number is None:
        raise OSError(38, f"no {name} on this machine")
    given = (ctypes.c_long(each) if isinstance(each, int) else each for each in arguments)
    result = _libc.syscall(ctypes.c_long(number), *given)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def scratch(name: str) -> str:
    """A new path where the program may write."""
    return os.path.join(os.environ["HOME"], f"{name}-{os.getpid()}")


def run(name: str, targets: Targets) -> dict[str, str]:
    """Try one probe in a child, which may be killed for it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(PROBE_S)
        code = BROKEN
        try:
            code = REACHED if ATTEMPTS[name](targets) else STOPPED
        except TimeoutError:
            code = TIMED_OUT
        except OSError as error:
            code = STOPPED
            os.write(writing, errno.errorcode.get(error.errno or 0, "").encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, encoding="ascii") as pipe:
        error = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        refused = number in (signal.SIGSYS, signal.SIGKILL)  # by the filter, or with the group of processes
        return {"probe": name, "outcome": "stopped" if refused else f"broken by signal {number}", "error": ""}
    outcomes = {REACHED: "reached", STOPPED: "stopped", TIMED_OUT: "timed out"}
    return {"probe": name, "outcome": outcomes.get(os.WEXITSTATUS(status), "broken"), "error": error}


def main() -> None:
    with open(int(os.environ["CHANNEL"]), "rb", closefd=False) as channel:
        targets = json.loads(channel.readline())
    for name in sys.argv[1:]:
        print(json.dumps(run(name, targets)), flush=True)

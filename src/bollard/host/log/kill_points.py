"""Named points at which a test kills the host as with `kill -9`: BOLLARD_KILL_POINT=name[:n]. No effect otherwise."""

import os
import signal
from collections.abc import Mapping
from typing import Final

from bollard.helper.host_link import HOST_PID_VARIABLE

_VARIABLE: Final = "BOLLARD_KILL_POINT"


class _Trap:
    """Kills the whole host when its point is reached for the n-th time."""

    def __init__(self, name: str, times: int, host_pid: int | None) -> None:
        self._name = name
        self._left = times
        self._host_pid = host_pid

    def reach(self, name: str) -> None:
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                if self._host_pid is not None:
                    os.kill(self._host_pid, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)


def _trap_of(environment: Mapping[str, str]) -> _Trap | None:
    name, _, times = environment.get(_VARIABLE, "").partition(":")
    host_pid = environment.get(HOST_PID_VARIABLE)
    if not name:
        return None
    return _Trap(name, int(times) if times.isdigit() else 1, int(host_pid) if host_pid else None)


_trap: Final = _trap_of(os.environ)


def kill_point(name: str) -> None:
    """Name this point, so that a test can kill the host exactly here."""
    if _trap is not None:
        _trap.reach(name)

"""Named instants at which a test lets the host die as by `kill -9`: BOLLARD_KILL_POINT=name[:n]. Nothing otherwise."""

import os
import signal
from collections.abc import Mapping
from typing import Final

__all__ = ["kill_point"]

_VARIABLE: Final = "BOLLARD_KILL_POINT"


class _Trap:
    """Kills this process when one point is reached for the n-th time."""

    def __init__(self, name: str, times: int) -> None:
        self._name = name
        self._left = times

    def reach(self, name: str) -> None:
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def _trap_of(environment: Mapping[str, str]) -> _Trap | None:
    name, _, times = environment.get(_VARIABLE, "").partition(":")
    return _Trap(name, int(times) if times.isdigit() else 1) if name else None


_trap: Final = _trap_of(os.environ)


def kill_point(name: str) -> None:
    """This instant has a name, so that a test can ask what happens when the host dies exactly here."""
    if _trap is not None:
        _trap.reach(name)

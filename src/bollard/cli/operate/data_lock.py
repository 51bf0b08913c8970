"""Locks a data directory for one process: the host, or a command that rewrites its data."""

import fcntl
import os
import stat
from pathlib import Path
from typing import Final, Self

from bollard.cli.errors import UsageProblem
from bollard.trust import make_folder

_OTHERS: Final = 0o077


class DataLock:
    """A lock from `take` until it is closed or the process ends for any reason."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, data: Path) -> Self:
        """Create the directory if it does not exist, and lock it. Raises `UsageProblem`."""
        try:
            make_folder(data, 0o700)  # flushed with its name, because all acknowledged data is in it
            _close_to_others(data)
            descriptor = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageProblem("error.write", "hint.data", path=data, detail=error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "?"
            os.close(descriptor)
            raise UsageProblem("error.data_busy", "hint.data_busy", path=data, pid=holder) from error
        try:
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        except OSError as error:  # a full disk: there was room for the file's name, but not for a line in it
            os.close(descriptor)
            raise UsageProblem("error.write", "hint.data", path=data, detail=error) from error
        return cls(descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def _close_to_others(data: Path) -> None:
    """Make the directory accessible to its owner only. Refuses a directory of another user. Raises `OSError` and
    `UsageProblem`."""
    found = data.stat()
    mode = stat.S_IMODE(found.st_mode)
    if not mode & _OTHERS:
        return
    try:
        data.chmod(mode & ~_OTHERS)
    except PermissionError as error:
        raise UsageProblem("error.data_open", "hint.data_open", path=data, mode=f"{mode:03o}") from error

"""A file that only takes space. On a full disk it is given up, so that what must still be written can be."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["RESERVE_BYTES", "ReserveFile"]

RESERVE_BYTES: Final = 8 << 20
"""Enough to end every run of a host and to say so."""


class ReserveFile:
    """Space beside the store. Not thread-safe: it is the journal's."""

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size = size

    @property
    def held(self) -> bool:
        try:
            return self._path.stat().st_size == self._size
        except OSError:
            return False

    def hold(self) -> bool:
        """Take the space, if there is any; true when it is taken now."""
        if self.held:
            return True
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            return False
        try:
            os.posix_fallocate(descriptor, 0, self._size)  # real blocks, not a hole
            os.fsync(descriptor)
        except OSError:
            self.release()  # part of it would take space and be of no use
            return False
        finally:
            os.close(descriptor)
        return True

    def release(self) -> None:
        """Give the space to whoever writes next."""
        with suppress(OSError):
            self._path.unlink()

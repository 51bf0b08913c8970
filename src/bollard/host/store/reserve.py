"""A file that only takes space. On a full disk it is given up, so that what must still be written can be."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

RESERVE_BYTES: Final = 8 << 20
"""Enough to end every run of a host and to say so."""
SMALLEST_RESERVE_BYTES: Final = 1 << 20
"""What is taken of a disk that has not much more; below it the disk counts as full."""


class ReserveFile:
    """Space beside the store. Not thread-safe: it is the journal's.

    It takes what it is told to, or halves of it down to the smallest, so that a small disk has one too. Never more
    than half of what is free: a reserve that leaves no room to write in would be spent at once.
    """

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        self._path = path
        self._sizes = [size]
        while (half := self._sizes[-1] // 2) >= SMALLEST_RESERVE_BYTES:
            self._sizes.append(half)

    @property
    def held(self) -> bool:
        return self._taken() >= self._sizes[-1]

    def hold(self) -> bool:
        """Take the space, as much of it as there may be; true when it is taken now."""
        if self._taken() == self._sizes[0]:
            return True
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            return False
        try:
            if any(_take(descriptor, size) for size in self._sizes):
                return True
        finally:
            os.close(descriptor)
        self.release()  # part of the smallest would take space and be of no use
        return False

    def release(self) -> None:
        """Give the space to whoever writes next."""
        with suppress(OSError):
            self._path.unlink()

    def _taken(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0


def _take(descriptor: int, size: int) -> bool:
    """Make the file this large, if there is twice the space for what it does not have yet."""
    try:
        disk, own = os.fstatvfs(descriptor), os.fstat(descriptor).st_blocks * 512
        if disk.f_bavail * disk.f_frsize + own < 2 * size:
            return False
        os.ftruncate(descriptor, size)
        os.posix_fallocate(descriptor, 0, size)  # real blocks, not a hole
        os.fsync(descriptor)
    except OSError:
        return False
    return True

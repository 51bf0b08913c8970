"""A reserve file that holds disk space. On a full disk the journal releases it to finish active runs."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

RESERVE_BYTES: Final = 8 << 20
"""Enough to end and record every run of a host."""
SMALLEST_RESERVE_BYTES: Final = 1 << 20
"""The reserve on a small disk. With less free space the disk counts as full."""


class ReserveFile:
    """The reserve beside the store. Not thread-safe: only the journal uses it.

    It has the requested size, or a half, a quarter and so on down to the smallest, so that a small disk has one too.
    It never takes more than half of the free space: otherwise it would be released at once.
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
        """Allocate the reserve, as large as possible; returns whether it is allocated."""
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
        self.release()  # a smaller file would only waste space
        return False

    def release(self) -> None:
        """Free the space for the next writes."""
        with suppress(OSError):
            self._path.unlink()

    def _taken(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0


def _take(descriptor: int, size: int) -> bool:
    """Grow the file to this size, if twice the space is available."""
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

"""Appends to a witness: a file that may be on another disk, or a pipe to another program. May hang as long as it likes:
a thread of its own waits for it, and nobody waits for that thread without a limit."""

import errno
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bollard.trust import make_folder, sync_folder

__all__ = ["WitnessFile"]

Written = Callable[[OSError | None], None]
"""Told, in the thread, what became of what was put."""
_NO_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EROFS})
"""What is said of a pipe or a device, which cannot be flushed to a disk."""


class WitnessFile:
    """One thread, one write at a time. It is opened for each write: it may have been moved away, or come back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._queue: queue.SimpleQueue[tuple[bytes, Written] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, lines: bytes, written: Written) -> None:
        """Append these lines. Whoever puts more before it was told makes a queue that it must bound itself."""
        if self._thread is None:
            # A daemon: a thread that hangs in a write must not keep the host from ending.
            self._thread = threading.Thread(target=self._work, name="bollard-witness", daemon=True)
            self._thread.start()
        self._queue.put((lines, written))

    def close(self) -> None:
        """The thread ends when it has nothing left to write."""
        self._queue.put(None)

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            lines, written = work
            try:
                self._append(lines)
            except OSError as error:
                written(error)
            else:
                written(None)

    def _append(self, lines: bytes) -> None:
        make_folder(self.path.parent, 0o700)
        new = not self.path.exists()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
        descriptor = os.open(self.path, flags, 0o600)
        try:
            left = memoryview(lines)
            while left:
                left = left[os.write(descriptor, left) :]
            try:
                os.fsync(descriptor)
            except OSError as error:
                if error.errno not in _NO_SYNC:
                    raise
            if new:
                sync_folder(self.path.parent)
        finally:
            os.close(descriptor)

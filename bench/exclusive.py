"""One benchmark at a time on a machine: two would measure each other."""

import fcntl
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["AnotherBench", "alone"]


class AnotherBench(Exception):
    """A benchmark is running already."""


@contextmanager
def alone() -> Generator[None]:
    """Held until the block ends or the process ends for any reason. Raises `AnotherBench`."""
    path = Path(tempfile.gettempdir()) / f"bollard-bench-{os.getuid()}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "?"
            raise AnotherBench(f"process {holder} is measuring already") from error
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)

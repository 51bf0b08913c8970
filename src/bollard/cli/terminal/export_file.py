"""Files that commands write. They may hold messages, so only their owner may read them."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from bollard.cli.errors import writing


def new_file(path: Path) -> BinaryIO:
    """Create a file that does not exist. Raises `OSError`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb")


@contextmanager
def whole_file(path: Path) -> Generator[BinaryIO]:
    """Write a file atomically: an existing file is replaced only after all of it was written. Raises `UsageProblem`."""
    fresh = path.with_name(f".{path.name}.part")
    try:
        with writing(path):
            fresh.unlink(missing_ok=True)
            with new_file(fresh) as sink:
                yield sink
            fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)

"""A bar that fills while something large is sent, on a terminal. Nothing elsewhere, nor for what is small."""

import contextlib
import sys
from collections.abc import Callable, Generator
from typing import Final

__all__ = ["uploading"]

_SHOWN_BYTES: Final = 2 * 1024 * 1024
"""What is smaller is gone before a bar could be read."""


@contextlib.contextmanager
def uploading(size: int) -> Generator[Callable[[int], None] | None]:
    """Gives whom to tell how much has been sent; nobody where nobody looks."""
    if size < _SHOWN_BYTES or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=size)
        yield lambda sent: progress.update(task, completed=sent)

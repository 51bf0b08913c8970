"""Progress bars on stderr, if it is a terminal."""

import contextlib
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Final

from bollard.cli.shell import Shell

_STAGES: Final = {
    "rows": "stage.rows",
    "blobs": "stage.blobs",
    "projections": "stage.projections",
    "verify_rows": "stage.verify",
    "verify_blobs": "stage.verify_blobs",
    "project_rows": "stage.project",
    "compare_rows": "stage.compare",
}


def progress_bar(shell: Shell, stack: ExitStack, key: str, total: int | None = None) -> Callable[..., None]:
    """A bar on stderr until the stack closes; a no-op if stderr is not a terminal.

    Returns a function that takes how far the work is, how far it goes, and another sentence.
    """
    console = shell.console(stderr=True)
    if not console.is_terminal:
        return lambda *_, **__: None
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = stack.enter_context(Progress(*columns, console=console, transient=True))
    task = progress.add_task(shell.text(key), total=total)

    def update(done: int, of: int | None = total, description: str | None = None) -> None:
        progress.update(task, completed=done, total=of, description=description)

    return update


def stage_bar(shell: Shell, stack: ExitStack) -> Callable[[str, int, int], None]:
    """A bar for work in stages. Returns a function that takes the stage, how far it is and how far it goes."""
    update = progress_bar(shell, stack, "stage.rows")
    return lambda stage, done, total: update(done, total, shell.text(_STAGES[stage]))


# A bar that fills while something large is sent, on a terminal. Nothing elsewhere, nor for what is small.


_SHOWN_BYTES: Final = 2 * 1024 * 1024
"""Smaller uploads show no bar, because they end too soon."""


@contextlib.contextmanager
def uploading(size: int) -> Generator[Callable[[int], None] | None]:
    """Yield a callback for the number of bytes sent; `None` for a small upload, or without a terminal."""
    if size < _SHOWN_BYTES or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=size)
        yield lambda sent: progress.update(task, completed=sent)

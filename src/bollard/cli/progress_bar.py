"""A bar on stderr for work that takes a while, where somebody sees it: one stage after the other."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from bollard.cli.shell import Shell

__all__ = ["stage_bar"]

_STAGES: Final = {
    "rows": "stage.rows",
    "blobs": "stage.blobs",
    "verify_rows": "stage.verify",
    "verify_blobs": "stage.verify_blobs",
}


def _nobody(stage: str, done: int, total: int) -> None:
    """Where nobody looks."""


def stage_bar(shell: Shell, stack: ExitStack) -> Callable[[str, int, int], None]:
    """Told the stage, how far it is and how far it goes. Where nobody looks, it does nothing."""
    console = shell.console(stderr=True)
    if not console.is_terminal:
        return _nobody
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = stack.enter_context(Progress(*columns, console=console, transient=True))
    task = progress.add_task(shell.text("stage.rows"), total=None)

    def told(stage: str, done: int, total: int) -> None:
        progress.update(task, description=shell.text(_STAGES[stage]), completed=done, total=total)

    return told

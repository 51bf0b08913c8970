"""`bollard log rebuild`: makes the projections anew from the log, while no host runs on the data directory."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bollard.cli.app import Command, Group
from bollard.cli.errors import UsageProblem
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["app"]

app = typer.Typer(cls=Group, help="log", no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@app.callback()
def log() -> None:
    """One command is a group all the same: more will come."""


@app.command("rebuild", cls=Command, help="log.rebuild")
def rebuild(
    ctx: typer.Context,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="up.option.data")] = None,
    database: Annotated[str | None, typer.Option("--database", metavar="URL", help="up.option.database")] = None,
) -> int:
    try:
        from bollard.cli.data_lock import DataLock
        from bollard.cli.host_problems import problem_of
        from bollard.host.clock import SystemClock
        from bollard.host.errors import HostError
        from bollard.host.log.rebuild import rebuild as rebuild_log
        from bollard.host.settings import read_settings
        from bollard.host.store.opening import choose_store
    except ImportError as error:
        if (error.name or "").startswith("bollard"):
            raise
        raise UsageProblem("error.no_host", "hint.no_host", module=error.name) from error
    shell: Shell = ctx.obj
    with ExitStack() as stack:
        try:
            settings = read_settings(os.environ, Path(), {"data": data, "database": database})
            if not settings.data.is_dir():
                raise UsageProblem("error.no_folder", "hint.no_data", path=settings.data)
            stack.callback(DataLock.take(settings.data).close)
            store = choose_store(settings.database, settings.data, SystemClock())
            store.open()
            stack.callback(store.close)
            count = rebuild_log(store, _progress(shell, stack))
        except HostError as error:
            raise problem_of(error) from error
    return shell.tell({"records": count}, shell.text("log.rebuilt", count=count))


def _progress(shell: Shell, stack: ExitStack) -> "Callable[[int], None]":
    """A counter on stderr, where somebody sees it."""
    console = shell.console(stderr=True)
    if not console.is_terminal:
        return lambda _: None
    status = stack.enter_context(console.status(shell.text("log.rebuilding")))

    def told(count: int) -> None:
        status.update(f"{shell.text('log.rebuilding')} {count}")

    return told

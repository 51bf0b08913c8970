"""`bollard log rebuild`: makes the projections anew from the log, while no host runs on the data directory."""

from contextlib import ExitStack
from typing import TYPE_CHECKING

import typer

from bollard.cli.app import Command, Group
from bollard.cli.shell import Shell
from bollard.cli.store_options import DatabaseOption, DataOption, chosen_store, store_problems

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
    data: DataOption = None,
    database: DatabaseOption = None,
) -> int:
    shell: Shell = ctx.obj
    with store_problems(), ExitStack() as stack:
        from bollard.cli.data_lock import DataLock
        from bollard.host.backup.copying import Source, readable_snapshot
        from bollard.host.clock import SystemClock
        from bollard.host.log.rebuild import rebuild as rebuild_log
        from bollard.host.store.opening import choose_store

        settings = chosen_store(data, database)
        # To open a store where there is none would make an empty one.
        readable_snapshot(Source(database=settings.database, data=settings.data)).close()
        stack.callback(DataLock.take(settings.data).close)
        store = choose_store(settings.database, settings.data, SystemClock(), alone=True)
        store.open()
        stack.callback(store.close)
        count = rebuild_log(store, _progress(shell, stack))
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

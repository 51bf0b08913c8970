"""`bollard migrate`: which schema a database has, which one this version needs, and the way from one to the other."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from bollard.cli.app import Command
from bollard.cli.errors import HostProblem
from bollard.cli.shell import Shell
from bollard.cli.store_options import DatabaseOption, DataOption, chosen_store, store_problems

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("migrate", cls=Command, help="migrate")
def migrate(
    ctx: typer.Context,
    check: Annotated[bool, typer.Option("--check", help="migrate.check")] = False,
    data: DataOption = None,
    database: DatabaseOption = None,
) -> int:
    shell: Shell = ctx.obj
    with store_problems():
        settings = chosen_store(data, database, there=not check)
        current, needed, known = _revisions(settings.database, settings.data)
        if current is not None and current not in known:
            detail = shell.text("migrate.versions", current=current, needed=needed)
            raise HostProblem("error.schema_new", "hint.schema_new", detail=detail)
        if not check and current != needed:
            _upgrade(settings.database, settings.data)
    return _tell(shell, current, needed, check=check)


def _revisions(database: str, data: Path) -> tuple[str | None, str, tuple[str, ...]]:
    """The revision that is there, the one that is needed, and all that this version knows."""
    from bollard.host.backup.opening import open_snapshot
    from bollard.host.store.migrations import REVISIONS

    if not database and not (data / "bollard.db").is_file():
        return None, REVISIONS.known[-1], REVISIONS.known
    snapshot = open_snapshot(database, data)
    try:
        return snapshot.revision, REVISIONS.known[-1], REVISIONS.known
    finally:
        snapshot.close()


def _upgrade(database: str, data: Path) -> None:
    """As a start does, without one; no host may use the directory meanwhile."""
    from bollard.cli.data_lock import DataLock
    from bollard.host.clock import SystemClock
    from bollard.host.store.opening import choose_store

    with ExitStack() as stack:
        stack.callback(DataLock.take(data).close)
        store = choose_store(database, data, SystemClock(), alone=True)
        store.open()
        store.close()


def _tell(shell: Shell, current: str | None, needed: str, *, check: bool) -> int:
    state = "empty" if current is None else "current" if current == needed else "older"
    if shell.for_programs:
        migrated = not check and current != needed
        shell.print_json({"current": current, "needed": needed, "state": state, "migrated": migrated})
    elif check:
        keys = {"empty": "migrate.empty", "current": "migrate.current", "older": "migrate.older"}
        shell.print(shell.text(keys[state], current=current, needed=needed))
    elif current == needed:
        shell.print(shell.text("migrate.current", current=current, needed=needed))
    else:
        shell.print(shell.text("migrate.done", current=current or "-", needed=needed))
    return 1 if check and state == "older" else 0

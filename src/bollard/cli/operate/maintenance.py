"""`bollard drain`, `migrate` and `log rebuild`: maintenance of a host and its store."""

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bollard.cli.command import CommandGroup, single_command
from bollard.cli.errors import HostProblem, UsageProblem
from bollard.cli.operate.store_options import StoreOptions, revision_of
from bollard.cli.shell import HostShell, Shell

if TYPE_CHECKING:
    from bollard.host.settings import Settings
    from bollard.host.store.store import Store

_PATH: Final = "/api/v1/host/drain"
_LOOK_S: Final = 0.5
"""Interval between two checks for active runs."""
_STATES: Final = {"empty": "migrate.empty", "current": "migrate.current", "older": "migrate.older"}

log = CommandGroup("log")


@single_command("drain")
def drain(
    shell: HostShell,
    undo: Annotated[bool, typer.Option("--undo", help="drain.option.undo")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="drain.option.wait")] = False,
) -> int:
    """Drain a host, or accept work again."""
    if undo and wait:
        raise UsageProblem("error.drain", "hint.drain")
    state = shell.post(_PATH, {"draining": not undo})
    if not shell.for_programs:
        key = "drain.off" if undo else "drain.on"
        shell.print(shell.text(key, address=shell.client.address, live=state["live"], queued=state["queued"]))
    while wait and state["live"]:
        time.sleep(_LOOK_S)
        state = shell.post(_PATH, {"draining": True})
    return shell.tell(state, *([shell.text("drain.empty")] if wait else ()))


@single_command("migrate")
def migrate(
    shell: Shell, check: Annotated[bool, typer.Option("--check", help="migrate.check")] = False, *, store: StoreOptions
) -> int:
    """Upgrade the database schema, or only compare the versions."""
    from bollard.host.store.migrations import REVISIONS

    settings = store.settings(there=not check)
    current, needed = _revision(settings), REVISIONS.known[-1]
    if current is not None and current not in REVISIONS.known:
        detail = shell.text("migrate.versions", current=current, needed=needed)
        raise HostProblem("error.schema_new", "hint.schema_new", detail=detail)
    if not check and current != needed:
        with _locked_store(settings):  # opening it migrates it
            pass
    state = "empty" if current is None else "current" if current == needed else "older"
    migrated = not check and current != needed
    key = "migrate.done" if migrated else _STATES[state]
    shell.tell(
        {"current": current, "needed": needed, "state": state, "migrated": migrated},
        shell.text(key, current=current or "-", needed=needed),
    )
    return 1 if check and state == "older" else 0


@log.command("rebuild")
def rebuild(
    shell: Shell,
    store: StoreOptions,
    drop_unverified: Annotated[bool, typer.Option("--drop-unverified", help="log.drop_unverified")] = False,
) -> int:
    """Rebuild the projections from the log; the host must be stopped."""
    from bollard.host.backup.backup import BackupSource, readable_snapshot
    from bollard.host.log.rebuild import rebuild as rebuild_log

    settings = store.settings()
    # Opening a missing store would create an empty one.
    readable_snapshot(BackupSource.of(settings)).close()
    with _locked_store(settings) as opened, ExitStack() as stack:
        made = rebuild_log(opened, _counter(shell, stack))
        dropped = _drop_unverified(opened) if drop_unverified else []
    value: dict[str, object] = {"records": made.records, "skipped": made.skipped}
    lines = [shell.text("log.rebuilt", count=made.records)]
    if made.skipped:
        lines.append(shell.text("log.skipped", count=made.skipped))
    if drop_unverified:
        value["dropped"] = dropped
        lines += [shell.text("log.dropped", **each) for each in dropped]
        lines.append(shell.text("log.dropped_count", count=len(dropped)))
    return shell.show(value, lines)


def _revision(settings: "Settings") -> str | None:
    """The schema of the database; `None` if there is no database."""
    if not settings.database and not (settings.data / "bollard.db").is_file():
        return None
    return revision_of(settings)


@contextmanager
def _locked_store(settings: "Settings") -> "Generator[Store]":
    """A store that no host may use meanwhile, migrated as by a start."""
    from bollard.cli.operate.data_lock import DataLock
    from bollard.host.clock import SystemClock
    from bollard.host.store.selection import choose_store

    with ExitStack() as stack:
        stack.callback(DataLock.take(settings.data).close)
        store = choose_store(settings.database, settings.data, SystemClock(), alone=True)
        store.open()
        stack.callback(store.close)
        yield store


def _drop_unverified(store: "Store") -> list[dict[str, str]]:
    with store.write() as transaction:
        return [{"kind": row.kind, "workspace": row.workspace, "id": row.id} for row in transaction.drop_unverified()]


def _counter(shell: Shell, stack: ExitStack) -> Callable[[int], None]:
    """A progress counter on stderr, if that is a terminal."""
    console = shell.console(stderr=True)
    if not console.is_terminal:
        return lambda _: None
    status = stack.enter_context(console.status(shell.text("log.rebuilding")))

    def report(count: int) -> None:
        status.update(f"{shell.text('log.rebuilding')} {count}")

    return report

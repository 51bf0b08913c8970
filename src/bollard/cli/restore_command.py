"""`bollard restore`: a backup into a directory and a database that are empty."""

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from bollard.cli.app import Command
from bollard.cli.shell import Shell
from bollard.cli.store_options import DatabaseOption, DataOption, chosen_store, store_problems

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("restore", cls=Command, help="restore")
def restore(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="restore.file")],
    data: DataOption = None,
    database: DatabaseOption = None,
) -> int:
    shell: Shell = ctx.obj
    with store_problems(), ExitStack() as stack:
        from bollard.cli.progress_bar import stage_bar
        from bollard.host.backup.restoring import restore as bring_back
        from bollard.host.clock import SystemClock

        settings = chosen_store(data, database, there=False)
        report = bring_back(
            file,
            data=settings.data,
            database=settings.database,
            clock=SystemClock(),
            progress=stage_bar(shell, stack),
        )
    taken = datetime.fromtimestamp(report.created_ms / 1000, UTC).isoformat(timespec="seconds")
    settled = report.settled
    if shell.for_programs:
        shell.print_json(
            {
                "data": str(settings.data.resolve()),
                "taken_at": taken,
                "version": report.version,
                "records": report.verified.records,
                "contents": report.verified.blobs,
                "runs_ended": settled.runs,
                "events_dropped": settled.events,
                "deliveries_unknown": settled.deliveries,
                "sessions_ended": settled.sessions,
                "missing": list(report.missing),
                "keys": list(report.keys),
            }
        )
        return 0
    text = shell.text
    shell.print(text("restore.done", taken=taken, records=report.verified.records, path=settings.data))
    shell.print(text("restore.settled", runs=settled.runs, events=settled.events, deliveries=settled.deliveries))
    shell.print(text("restore.since"))
    shell.print(text("restore.keys" if report.keys else "restore.no_keys"))
    for sha256 in report.missing:
        shell.print(text("backup.missing", sha256=sha256))
    return 0

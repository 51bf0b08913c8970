"""`bollard import`: a workspace from an archive into a store that has nothing of it, while no host uses it."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from bollard.cli.app import Command
from bollard.cli.shell import Shell
from bollard.cli.store_options import DatabaseOption, DataOption, chosen_store, store_problems

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("import", cls=Command, help="import")
def bring_in(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="import.file")],
    data: DataOption = None,
    database: DatabaseOption = None,
) -> int:
    shell: Shell = ctx.obj
    with store_problems(), ExitStack() as stack:
        from bollard.cli.data_lock import DataLock
        from bollard.cli.progress_bar import stage_bar
        from bollard.host.archive.reading import ArchiveReader
        from bollard.host.backup.copying import Source
        from bollard.host.backup.importing import import_workspace
        from bollard.host.clock import SystemClock

        with ArchiveReader(file, "workspace"):
            pass  # it is one: before a directory is made for it
        settings = chosen_store(data, database, there=False)  # the lock makes a directory that is new
        stack.callback(DataLock.take(settings.data).close)
        report = import_workspace(
            file,
            Source(database=settings.database, data=settings.data),
            clock=SystemClock(),
            progress=stage_bar(shell, stack),
        )
    verified, settled = report.verified, report.settled
    if shell.for_programs:
        shell.print_json(
            {
                "workspace": report.workspace,
                "records": verified.records,
                "without_data": verified.dropped,
                "contents": verified.blobs,
                "runs_ended": settled.runs,
                "events_dropped": settled.events,
                "withheld": report.withheld,
                "agents_without_secrets": list(report.agents),
            }
        )
        return 0
    fields = {"records": verified.records, "contents": verified.blobs}
    shell.print(shell.text("import.done", workspace=report.workspace, **fields))
    shell.print(shell.text("import.next"))
    if report.agents:
        shell.print(shell.text("export.agents", agents=", ".join(report.agents)))
    return 0

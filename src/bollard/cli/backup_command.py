"""`bollard backup`: all of a store into one archive, while its host runs."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from bollard.cli.app import Command
from bollard.cli.shell import Shell
from bollard.cli.store_options import DatabaseOption, DataOption, chosen_store, size_text, store_problems

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("backup", cls=Command, help="backup")
def backup(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="backup.file")],
    data: DataOption = None,
    database: DatabaseOption = None,
    with_keys: Annotated[bool, typer.Option("--with-keys", help="backup.with_keys")] = False,
) -> int:
    shell: Shell = ctx.obj
    with store_problems(), ExitStack() as stack:
        from bollard import __version__
        from bollard.cli.progress_bar import stage_bar
        from bollard.host.backup.copying import Source, back_up
        from bollard.host.clock import SystemClock

        settings = chosen_store(data, database)
        report = back_up(
            Source(database=settings.database, data=settings.data),
            file,
            with_keys=with_keys,
            version=__version__,
            clock=SystemClock(),
            progress=stage_bar(shell, stack),
        )
    verified = report.verified
    if shell.for_programs:
        shell.print_json(
            {
                "file": str(file),
                "bytes": report.size,
                "tables": report.tables,
                "records": verified.records,
                "chains": verified.chains,
                "heads": verified.heads,
                "contents": verified.blobs,
                "missing": list(report.missing),
                "keys": list(report.keys),
            }
        )
        return 1 if report.missing else 0
    text = shell.text
    fields = {"records": verified.records, "contents": verified.blobs, "chains": verified.chains}
    shell.print(text("backup.written", file=file, size=size_text(report.size), **fields))
    shell.print(text("backup.keys" if report.keys else "backup.no_keys"))
    for sha256 in report.missing:
        shell.print(text("backup.missing", sha256=sha256))
    return 1 if report.missing else 0

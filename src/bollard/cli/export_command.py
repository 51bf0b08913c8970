"""`bollard export`: one workspace into an archive, while its host runs."""

import asyncio
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bollard.cli.app import Command
from bollard.cli.shell import Shell
from bollard.cli.store_options import DatabaseOption, DataOption, chosen_store, size_text, store_problems

if TYPE_CHECKING:
    from bollard.host.backup.exporting import OpenFields

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("export", cls=Command, help="export")
def export(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="backup.file")],
    workspace: Annotated[str, typer.Option("--workspace", metavar="ID", help="export.workspace")] = "default",
    data: DataOption = None,
    database: DatabaseOption = None,
) -> int:
    shell: Shell = ctx.obj
    with store_problems(), ExitStack() as stack:
        from bollard import __version__
        from bollard.cli.progress_bar import stage_bar
        from bollard.host.backup.copying import Source
        from bollard.host.backup.exporting import export_workspace
        from bollard.host.clock import SystemClock

        settings = chosen_store(data, database)
        report = export_workspace(
            Source(database=settings.database, data=settings.data),
            workspace,
            file,
            version=__version__,
            clock=SystemClock(),
            open_fields=_open_fields(),
            progress=stage_bar(shell, stack),
        )
    verified = report.verified
    if shell.for_programs:
        shell.print_json(
            {
                "file": str(file),
                "workspace": workspace,
                "bytes": report.size,
                "records": verified.records,
                "without_data": verified.dropped,
                "heads": verified.heads,
                "contents": verified.blobs,
                "withheld": report.withheld,
                "agents_without_secrets": list(report.agents),
                "gone": list(report.missing),
            }
        )
        return 0
    fields = {"records": verified.records, "contents": verified.blobs, "size": size_text(report.size)}
    shell.print(shell.text("export.written", workspace=workspace, file=file, **fields))
    shell.print(shell.text("export.withheld", count=report.withheld))
    if report.agents:
        shell.print(shell.text("export.agents", agents=", ".join(report.agents)))
    return 0


def _open_fields() -> "OpenFields":
    """What the runners of the running host say about their configuration; nothing is known without a host."""
    from bollard.cli.documents import DocumentKind
    from bollard.cli.errors import CliError
    from bollard.cli.host_client import find_host

    async def ask() -> dict[str, frozenset[str]]:
        runners = await DocumentKind(path="/api/v1/runners", key="runner_id").all(find_host(None, None, os.environ))
        return {
            str(runner["runner_id"]): frozenset(
                str(item["name"]) for item in runner["config_schema"] if item["type"] != "secret"
            )
            for runner in runners
        }

    try:
        known = asyncio.run(ask())
    except CliError:
        known = dict[str, frozenset[str]]()
    return lambda runner_id: known.get(runner_id, frozenset())

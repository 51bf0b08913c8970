"""`bollard up`: reads the settings and starts the host."""

import gc
import os
from pathlib import Path
from typing import Annotated

import typer

from bollard.cli.app import Command
from bollard.cli.errors import UsageProblem
from bollard.cli.limits import COLLECT_AFTER
from bollard.cli.log_library import load_without_rich
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("up", cls=Command, help="up")
def up(
    ctx: typer.Context,
    data: Annotated[str | None, typer.Option("--data", metavar="DIR", help="up.option.data")] = None,
    port: Annotated[int | None, typer.Option("--port", metavar="N", help="up.option.port")] = None,
    host: Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="up.option.host")] = None,
    tls_cert: Annotated[str | None, typer.Option("--tls-cert", metavar="FILE", help="up.option.tls_cert")] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="up.option.tls_key")] = None,
    plugins: Annotated[list[Path] | None, typer.Option("--plugins", metavar="PATH", help="up.option.plugins")] = None,
    database: Annotated[str | None, typer.Option("--database", metavar="URL", help="up.option.database")] = None,
    workers: Annotated[int | None, typer.Option("--workers", metavar="N", help="up.option.workers")] = None,
) -> int:
    try:
        gc.set_threshold(*COLLECT_AFTER)  # what is loaded now stays: to look through it again and again takes a tenth
        load_without_rich()  # before anything that logs
        from bollard.cli.announcing import LineAnnouncer, TextAnnouncer
        from bollard.cli.host_logs import configure_logs
        from bollard.cli.host_problems import problem_of
        from bollard.cli.serving import serve
        from bollard.host.errors import HostError
        from bollard.host.secrets.redactor import Redactor
        from bollard.host.settings import read_settings
    except ImportError as error:
        if (error.name or "").startswith("bollard"):
            raise
        raise UsageProblem("error.no_host", "hint.no_host", module=error.name) from error
    shell: Shell = ctx.obj
    if missing := next((path for path in plugins or () if not path.exists()), None):
        raise UsageProblem("error.no_path", "hint.plugin_path", path=missing)
    asked = {"data": data, "port": port, "plugins": plugins or None, "database": database, "workers": workers}
    asked |= {"host": host, "tls_cert": tls_cert, "tls_key": tls_key}
    try:
        settings = read_settings(os.environ, Path(), asked)
    except HostError as error:
        raise problem_of(error) from error
    redactor = Redactor()
    configure_logs(settings.log_level, for_people=not shell.for_programs, hidden=redactor.everywhere.value)
    return serve(settings, LineAnnouncer() if shell.for_programs else TextAnnouncer(shell), redactor)

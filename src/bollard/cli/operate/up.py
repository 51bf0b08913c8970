"""`bollard up`: reads the settings and starts the host."""

import gc
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from bollard.cli.command import single_command
from bollard.cli.errors import UsageProblem
from bollard.cli.limits import COLLECT_AFTER
from bollard.cli.shell import Shell


@single_command("up")
def up(
    shell: Shell,
    # `scripts/describe` reads the options of the settings here.
    data: Annotated[str | None, typer.Option("--data", metavar="DIR", help="up.option.data")] = None,
    port: Annotated[int | None, typer.Option("--port", metavar="N", help="up.option.port")] = None,
    host: Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="up.option.host")] = None,
    tls_cert: Annotated[str | None, typer.Option("--tls-cert", metavar="FILE", help="up.option.tls_cert")] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="up.option.tls_key")] = None,
    plugins: Annotated[list[Path] | None, typer.Option("--plugins", metavar="PATH", help="up.option.plugins")] = None,
    database: Annotated[str | None, typer.Option("--database", metavar="URL", help="up.option.database")] = None,
    workers: Annotated[int | None, typer.Option("--workers", metavar="N", help="up.option.workers")] = None,
    worker_sandbox: Annotated[
        str | None, typer.Option("--worker-sandbox", metavar="LEVEL", help="up.option.worker_sandbox")
    ] = None,
) -> int:
    from bollard.helper.host_link import deny_inspection  # isort: skip -- before anything secret is read

    deny_inspection()
    gc.set_threshold(*COLLECT_AFTER)  # the loaded modules stay: collecting them again and again costs a tenth
    from bollard.cli.operate.host_log import configure_logs  # isort: skip -- before anything that logs
    from bollard.cli.operate.log_files import LogFiles
    from bollard.cli.operate.server import Announcer, serve
    from bollard.host.secrets.redactor import Redactor
    from bollard.host.settings import read_settings

    if missing := next((path for path in plugins or () if not path.exists()), None):
        raise UsageProblem("error.no_path", "hint.plugin_path", path=missing)
    asked = {"data": data, "port": port, "plugins": plugins or None, "database": database, "workers": workers}
    asked |= {"host": host, "tls_cert": tls_cert, "tls_key": tls_key, "worker_sandbox": worker_sandbox}
    settings = read_settings(os.environ, Path(), asked)
    redactor = Redactor()

    def report(problem: OSError) -> None:
        sys.stderr.write(shell.text("up.log_lost", problem=problem) + "\n")

    files = LogFiles(Path(settings.log_dir), report) if settings.log_dir else None
    configure_logs(settings.log_level, for_people=not shell.for_programs, hidden=redactor.everywhere.value, files=files)
    return serve(settings, Announcer(shell), redactor)

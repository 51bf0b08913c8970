"""`bollard openapi`: the host's API as an OpenAPI 3.1 document, printed or written. Needs no host that runs."""

from pathlib import Path
from typing import Annotated

import typer

from bollard.cli.app import Command
from bollard.cli.errors import UsageProblem
from bollard.cli.shell import Shell
from bollard.cli.store_options import store_problems

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=Command, help="openapi")
def openapi(
    ctx: typer.Context,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="openapi.out")] = None,
) -> int:
    from bollard.protocol.export import render

    with store_problems():  # the host may not be installed
        from bollard.host.http.description import described
        from bollard.host.http.routes import operations

        text = render(described(operations()))
    shell: Shell = ctx.obj
    if out is None:
        shell.print(text.rstrip("\n"))
        return 0
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageProblem("error.write", "hint.write", path=out, detail=error.strerror or error) from error
    return shell.tell({"path": str(out)}, shell.text("openapi.written", path=out))

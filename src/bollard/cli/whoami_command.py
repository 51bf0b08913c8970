"""`bollard whoami`: as whom commands come to the host, and what that may do."""

import os
from typing import Any, cast

import typer

from bollard.cli.app import Command
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.moments import day_of
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=Command, help="whoami")
def whoami(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    shown = cast("dict[str, Any]", asyncio.run(find_host(url, token, os.environ).get("/api/v1/session")))
    if shell.for_programs:
        shell.print_json(shown)
        return 0
    text = shell.text
    shell.print(text("whoami.name", name=shown["name"], workspace=shown["workspace"]))
    if "role" in shown:
        shell.print(text("whoami.role", role=shown["role"]))
    shell.print(text("whoami.rights", rights=", ".join(shown["rights"])))
    if "expires_at" in shown:
        shell.print(text("whoami.until", until=day_of(shown["expires_at"])))
    return 0

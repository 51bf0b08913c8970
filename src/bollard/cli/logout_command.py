"""`bollard logout`: end the session of this user's commands, at the host and here."""

import os

import typer

from bollard.cli.app import Command
from bollard.cli.credentials import Credentials, credentials_path
from bollard.cli.errors import HostProblem, UsageProblem
from bollard.cli.host_client import UrlOption, find_host
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=Command, help="logout")
def logout(ctx: typer.Context, url: UrlOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    kept = Credentials(credentials_path(os.environ))
    address = find_host(url, None, os.environ).address
    token = kept.session_for(address)
    if token is None:
        raise UsageProblem("error.no_session", "hint.no_session", address=address)
    try:
        asyncio.run(find_host(url, token, os.environ).delete("/api/v1/session"))
    except HostProblem as error:
        if error.key != "error.token":  # one that the host does not know any more has ended already
            raise
    try:
        kept.end_session(address)
    except OSError as error:
        raise UsageProblem("error.write", "hint.write", path=kept.path, detail=error.strerror or error) from error
    return shell.tell({"ended": True}, shell.text("logout.done", address=address))

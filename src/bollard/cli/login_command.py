"""`bollard login`: exchange a password for a session, and keep it for this user's commands."""

import os
from typing import Annotated, Any, cast

import typer

from bollard.cli.app import Command
from bollard.cli.credentials import Credentials, credentials_path
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import UrlOption, find_host
from bollard.cli.moments import day_of
from bollard.cli.passwords import PasswordStdin, ask_password
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=Command, help="login")
def login(
    ctx: typer.Context,
    user: Annotated[str, typer.Argument(metavar="USER", help="login.user")],
    workspace: Annotated[str, typer.Option("--workspace", metavar="ID", help="login.workspace")] = "default",
    password_stdin: PasswordStdin = False,
    url: UrlOption = None,
) -> int:
    import asyncio

    shell: Shell = ctx.obj
    client = find_host(url, None, os.environ)
    password = ask_password(shell.text, from_stdin=password_stdin)
    begun = cast(
        "dict[str, Any]",
        asyncio.run(client.begin_session({"workspace": workspace, "user": user, "password": password})),
    )
    kept = Credentials(credentials_path(os.environ))
    try:
        kept.begin_session(client.address, begun.pop("token"))
    except OSError as error:
        raise UsageProblem("error.write", "hint.write", path=kept.path, detail=error.strerror or error) from error
    if shell.for_programs:
        shell.print_json(begun)
    else:
        until = day_of(begun["expires_at"])
        shell.print(shell.text("login.done", user=user, workspace=workspace, role=begun["role"], until=until))
    return 0

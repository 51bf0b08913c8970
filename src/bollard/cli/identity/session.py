"""`bollard login`, `logout` and `whoami`: the session of this user's commands, and its rights."""

import os
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from bollard.cli.client.credentials import Credentials, credentials_path
from bollard.cli.client.host_client import find_host
from bollard.cli.command import UrlOption, single_command
from bollard.cli.errors import HostProblem, UsageProblem, writing
from bollard.cli.language import Text
from bollard.cli.shell import HostShell, Shell
from bollard.cli.terminal.prompt import PasswordStdin, ask_password
from bollard.cli.terminal.times import day_of


@single_command("login")
def login(
    shell: Shell,
    user: Annotated[str, typer.Argument(metavar="USER", help="login.user")],
    workspace: Annotated[str, typer.Option("--workspace", metavar="ID", help="login.workspace")] = "default",
    password_stdin: PasswordStdin = False,
    url: UrlOption = None,
) -> int:
    """Log in and save the session for the user's commands."""
    import asyncio

    client = find_host(url, None, os.environ)
    password = ask_password(shell.text, from_stdin=password_stdin)
    asked = client.begin_session({"workspace": workspace, "user": user, "password": password})
    begun: dict[str, Any] = {**asyncio.run(asked)}
    kept = Credentials(credentials_path(os.environ))
    with writing(kept.path):
        kept.begin_session(client.address, begun.pop("token"))
    until = day_of(begun["expires_at"])
    return shell.tell(begun, shell.text("login.done", user=user, workspace=workspace, role=begun["role"], until=until))


@single_command("logout")
def logout(shell: Shell, url: UrlOption = None) -> int:
    """End the session of this user's commands, at the host and here."""
    import asyncio

    kept = Credentials(credentials_path(os.environ))
    address = find_host(url, None, os.environ).address
    token = kept.session_for(address)
    if token is None:
        raise UsageProblem("error.no_session", "hint.no_session", address=address)
    try:
        asyncio.run(find_host(url, token, os.environ).call("DELETE", "/api/v1/session"))
    except HostProblem as error:
        if error.key != "error.token":  # an unknown session has already ended
            raise
    with writing(kept.path):
        kept.end_session(address)
    return shell.tell({"ended": True}, shell.text("logout.done", address=address))


@single_command("whoami")
def whoami(shell: HostShell) -> int:
    """Show the identity of this user's commands."""
    shown = shell.get("/api/v1/session")
    return shell.show(shown, _session_lines(shown, shell.text))


def _session_lines(session: dict[str, Any], text: Text) -> Iterator[str]:
    yield text("whoami.name", name=session["name"], workspace=session["workspace"])
    if "role" in session:
        yield text("whoami.role", role=session["role"])
    yield text("whoami.rights", rights=", ".join(session["rights"]))
    if "expires_at" in session:
        yield text("whoami.until", until=day_of(session["expires_at"]))

"""`bollard console`: a link that signs a browser in, once."""

import webbrowser
from typing import Annotated

import typer

from bollard.cli.command import single_command
from bollard.cli.errors import UsageProblem
from bollard.cli.shell import HostShell


@single_command("console")
def console(
    shell: HostShell, in_browser: Annotated[bool, typer.Option("--open", help="console.option.open")] = False
) -> int:
    """Print the link, or open it. It is a secret for ten minutes, so it goes to a terminal alone."""
    if not in_browser and shell.mode != "terminal":
        raise UsageProblem("error.console_pipe", "hint.console_pipe")
    issued = shell.post("/api/v1/session/tickets")
    address = shell.client.address
    link = f"{address}{issued['path']}"
    if not in_browser:
        shell.print(shell.text("console.link", link=link, minutes=round(issued["expires_in_s"] / 60)))
        return 0
    if not webbrowser.open(link):
        raise UsageProblem("error.no_browser", "hint.no_browser")
    return shell.tell({"opened": address}, shell.text("console.opened", address=address))

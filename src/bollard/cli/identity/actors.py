"""`bollard actors …`: links accounts of chats to users by one-time codes."""

from typing import Annotated

import typer

from bollard.cli.command import CommandGroup
from bollard.cli.options import given_values
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import printable
from bollard.cli.terminal.times import minute_of

UserOption = Annotated[str | None, typer.Option("--user", metavar="USER", help="actors.user")]
app = CommandGroup("actors")


@app.command("code")
def code(shell: HostShell, user: UserOption = None) -> int:
    made = shell.post("/api/v1/actors/codes", given_values({"user_id": user}))
    return shell.tell(made, shell.text("actors.made", code=made["code"], until=minute_of(made["expires_at"])))


@app.command("link")
def link(
    shell: HostShell,
    given: Annotated[str, typer.Argument(metavar="CODE", help="actors.given")],
    user: UserOption = None,
) -> int:
    linked = shell.post("/api/v1/actors/redeem", given_values({"code": given, "user_id": user}))
    return shell.tell(linked, shell.text("users.linked", actor=printable(linked["actor"]), user=linked["user_id"]))

"""`bollard secrets …`: sets, lists and removes secrets. A value comes from a pipe or the terminal, never from an
option, which the shell's history and the process list would show. It is not shown again."""

import getpass
import sys
from typing import Annotated, Any

import typer

from bollard.cli.client.documents import SECRETS
from bollard.cli.command import CommandGroup
from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text
from bollard.cli.shell import HostShell, Shell
from bollard.cli.terminal.columns import Column
from bollard.cli.terminal.times import day_of

SecretName = Annotated[str, typer.Argument(metavar="NAME", help="secrets.name")]


def _last_use(secret: dict[str, Any], text: Text) -> str:
    used = secret.get("last_used_at")
    return text("secrets.never") if used is None else day_of(used)


app = CommandGroup("secrets")
app.add_list(
    SECRETS,
    (
        Column("name", "secret_name"),
        Column("set", lambda secret, _: f"{day_of(secret['set_at'])} {secret['set_by']}"),
        Column("used", _last_use),
        Column("state", lambda secret, text: text("secrets.readable" if secret["readable"] else "secrets.unreadable")),
    ),
    none="secrets.none",
)


@app.command("set")
def set_secret(shell: HostShell, name: SecretName) -> int:
    saved = shell.put(SECRETS.one(name), {"value": _asked(shell)})
    sentences = [shell.text("secrets.saved", name=name, reference=f"secret:{name}")]
    if not saved["masked"]:
        sentences.append(shell.text("secrets.short"))
    return shell.show(saved, sentences)


app.add_delete(SECRETS, ("name", SecretName), "remove")


def _asked(shell: Shell) -> str:
    """The content of stdin without its last line end, or the typed value."""
    if sys.stdin.isatty():
        value = getpass.getpass(f"{shell.text('secrets.ask')}: ")
    else:
        value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise UsageProblem("error.secret_empty", "hint.secret_empty")
    return value

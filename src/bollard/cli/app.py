"""The tree of commands. Groups are imported when they are used; every help text is a key until its language is known.

`help` names a sentence of the catalogue; `localize` puts the sentence there.
"""

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final

import typer
from typer.main import get_command

from bollard import __version__
from bollard.cli.command import Group, first_paragraph, shell_of
from bollard.cli.language import LANGUAGES, Text

COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "up": "operate.up:up",
        "chat": "runs.chat:chat",
        "runs": "runs.runs:app",
        "agents": "agents.agents:app",
        "capabilities": "agents.capabilities:app",
        "bindings": "agents.bindings:app",
        "resolve": "runs.events:resolve",
        "events": "runs.events:app",
        "conversations": "runs.conversations:app",
        "artifacts": "runs.artifacts:app",
        "state": "runs.state:app",
        "channels": "agents.channels:app",
        "models": "agents.models:app",
        "skills": "agents.skills:app",
        "files": "agents.files:app",
        "knowledge": "agents.knowledge:app",
        "approvals": "runs.approvals:app",
        "audit": "operate.audit:app",
        "log": "operate.maintenance:log",
        "drain": "operate.maintenance:drain",
        "doctor": "operate.doctor:doctor",
        "backup": "operate.archives:backup",
        "restore": "operate.archives:restore",
        "export": "operate.archives:export",
        "import": "operate.archives:import_archive",
        "migrate": "operate.maintenance:migrate",
        "users": "identity.users:app",
        "keys": "identity.keys:app",
        "secrets": "agents.secrets:app",
        "workspaces": "identity.workspaces:app",
        "login": "identity.session:login",
        "logout": "identity.session:logout",
        "whoami": "identity.session:whoami",
        "plugin": "plugins.installed:app",
        "mcp": "agents.mcp:app",
        "runtimes": "plugins.runtimes:app",
        "runtime": "plugins.runtimes:runtime",
        "openapi": "operate.schemas:openapi",
        "protocol": "operate.schemas:protocol",
        "conformance": "plugins.conformance:conformance",
    }
)
"""Each command and the Typer app that holds it, below `bollard.cli`. The key of its help text is its name."""


def load(entry: str) -> typer.Typer:
    """Import the app of an entry of `COMMANDS`."""
    module, _, name = entry.partition(":")
    return getattr(importlib.import_module(f"bollard.cli.{module}"), name)


class Root(Group):
    """The commands of `COMMANDS`, imported on first use."""

    lazy: ClassVar[Mapping[str, str]] = COMMANDS

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(self.lazy)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.lazy:
            return None
        command = get_command(load(self.lazy[cmd_name]))
        command.name = cmd_name
        localize(command, shell_of(ctx).text)
        return command

    def summaries(self, ctx: Any) -> list[tuple[str, str]]:
        text = shell_of(ctx).text
        return [(name, first_paragraph(text(name))) for name in self.lazy]


def localize(command: Any, text: Text) -> None:
    """Replace the keys of a command and its subcommands by the texts of a language."""
    for name in ("help", "epilog"):
        if getattr(command, name, None) in text:
            setattr(command, name, text(getattr(command, name)))
    for param in command.params:
        # What typer adds by itself (--install-completion) has an English text, and a key by its name.
        key = param.help if param.help in text else f"option.{param.name}"
        if key in text:
            param.help = text(key)
    for child in getattr(command, "commands", {}).values():
        localize(child, text)


app = typer.Typer(
    cls=Root,
    name="bollard",
    help="bollard",
    epilog="bollard.epilog",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"bollard {__version__}")
        raise typer.Exit


@app.callback()
def bollard(
    version: Annotated[
        bool, typer.Option("--version", help="option.version", is_eager=True, callback=_show_version)
    ] = False,
    lang: Annotated[str | None, typer.Option("--lang", help="option.lang", metavar="|".join(LANGUAGES))] = None,
    json: Annotated[bool, typer.Option("--json", help="option.json")] = False,
    text: Annotated[bool, typer.Option("--text", help="option.text")] = False,
) -> None:
    # All but --version are read before the parser sees the arguments (`read_invocation`); here they are documented.
    del version, lang, json, text


def build(text: Text) -> Any:
    """Build the root command in one language."""
    command = get_command(app)
    localize(command, text)
    return command

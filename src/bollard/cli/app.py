"""The tree of commands. Groups are imported when they are used; every help text is a key until its language is known.

In a command module `help="plugin.new"` names a sentence of the catalogue; `localize` puts the sentence there.
"""

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from bollard import __version__
from bollard.cli.errors import UsageProblem
from bollard.cli.helppage import help_page
from bollard.cli.language import LANGUAGES, Text
from bollard.cli.shell import Shell

__all__ = ["COMMANDS", "Command", "Group", "LazyCommand", "build", "localize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyCommand:
    """Where a command or a group of commands is, and what it is for."""

    module: str
    help: str


COMMANDS: Final[Mapping[str, LazyCommand]] = MappingProxyType(
    {
        "up": LazyCommand(module="bollard.cli.up_command", help="up"),
        "chat": LazyCommand(module="bollard.cli.chat_command", help="chat"),
        "runs": LazyCommand(module="bollard.cli.runs_commands", help="runs"),
        "agents": LazyCommand(module="bollard.cli.agents_commands", help="agents"),
        "capabilities": LazyCommand(module="bollard.cli.capabilities_commands", help="capabilities"),
        "bindings": LazyCommand(module="bollard.cli.bindings_commands", help="bindings"),
        "resolve": LazyCommand(module="bollard.cli.resolve_command", help="resolve"),
        "events": LazyCommand(module="bollard.cli.events_commands", help="events"),
        "conversations": LazyCommand(module="bollard.cli.conversations_commands", help="conversations"),
        "artifacts": LazyCommand(module="bollard.cli.artifacts_commands", help="artifacts"),
        "state": LazyCommand(module="bollard.cli.state_commands", help="state"),
        "channels": LazyCommand(module="bollard.cli.channels_commands", help="channels"),
        "models": LazyCommand(module="bollard.cli.models_commands", help="models"),
        "skills": LazyCommand(module="bollard.cli.skills_commands", help="skills"),
        "files": LazyCommand(module="bollard.cli.files_commands", help="files"),
        "knowledge": LazyCommand(module="bollard.cli.knowledge_commands", help="knowledge"),
        "approvals": LazyCommand(module="bollard.cli.approvals_commands", help="approvals"),
        "audit": LazyCommand(module="bollard.cli.audit_commands", help="audit"),
        "log": LazyCommand(module="bollard.cli.log_commands", help="log"),
        "drain": LazyCommand(module="bollard.cli.drain_command", help="drain"),
        "doctor": LazyCommand(module="bollard.cli.doctor_command", help="doctor"),
        "backup": LazyCommand(module="bollard.cli.backup_command", help="backup"),
        "restore": LazyCommand(module="bollard.cli.restore_command", help="restore"),
        "export": LazyCommand(module="bollard.cli.export_command", help="export"),
        "import": LazyCommand(module="bollard.cli.import_command", help="import"),
        "migrate": LazyCommand(module="bollard.cli.migrate_command", help="migrate"),
        "users": LazyCommand(module="bollard.cli.users_commands", help="users"),
        "keys": LazyCommand(module="bollard.cli.keys_commands", help="keys"),
        "secrets": LazyCommand(module="bollard.cli.secrets_commands", help="secrets"),
        "workspaces": LazyCommand(module="bollard.cli.workspaces_commands", help="workspaces"),
        "login": LazyCommand(module="bollard.cli.login_command", help="login"),
        "logout": LazyCommand(module="bollard.cli.logout_command", help="logout"),
        "whoami": LazyCommand(module="bollard.cli.whoami_command", help="whoami"),
        "plugin": LazyCommand(module="bollard.cli.plugin_commands", help="plugin"),
        "mcp": LazyCommand(module="bollard.cli.mcp_commands", help="mcp"),
        "runtimes": LazyCommand(module="bollard.cli.runtimes_commands", help="runtimes"),
        "runtime": LazyCommand(module="bollard.cli.runtime_command", help="runtime"),
        "openapi": LazyCommand(module="bollard.cli.openapi_command", help="openapi"),
        "protocol": LazyCommand(module="bollard.cli.protocol_commands", help="protocol"),
        "conformance": LazyCommand(module="bollard.cli.conformance_commands", help="conformance"),
    }
)
"""The first word after `bollard`, in the order of the help page."""


def _shell(ctx: Any) -> Shell:
    return ctx.find_root().obj


def _explained(option: Any, ctx: Any) -> Any:
    if option is not None:
        option.help = _shell(ctx).text("option.help")
    return option


class Command(TyperCommand):
    """A command with our help page."""

    def get_help(self, ctx: Any) -> str:
        return help_page(self, ctx, _shell(ctx).text)

    def get_help_option(self, ctx: Any) -> Any:
        return _explained(super().get_help_option(ctx), ctx)


class Group(TyperGroup):
    """A group of commands with our help page, and a hint for a word that it does not know."""

    def get_help(self, ctx: Any) -> str:
        return help_page(self, ctx, _shell(ctx).text)

    def get_help_option(self, ctx: Any) -> Any:
        return _explained(super().get_help_option(ctx), ctx)

    def summaries(self, ctx: Any) -> list[tuple[str, str]]:
        """Each command and the first sentence about it."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return [(name, _first_line(command.help)) for name, command in found if command is not None]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], known, n=1)
            hint = "hint.command_near" if near else "hint.help"
            path = ctx.command_path
            raise UsageProblem("error.command", hint, word=args[0], path=path, near=near[0] if near else "")
        return super().resolve_command(ctx, args)


class Root(Group):
    """The commands of `COMMANDS`, each imported when it is asked for."""

    lazy: ClassVar[Mapping[str, LazyCommand]] = COMMANDS

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(self.lazy)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.lazy:
            return None
        module = importlib.import_module(self.lazy[cmd_name].module)
        command = get_command(module.app)
        command.name = cmd_name
        localize(command, _shell(ctx).text)
        return command

    def summaries(self, ctx: Any) -> list[tuple[str, str]]:
        text = _shell(ctx).text
        return [(name, _first_line(text(entry.help))) for name, entry in self.lazy.items()]


def _first_line(text: str | None) -> str:
    return (text or "").split("\n\n")[0]


def localize(command: Any, text: Text) -> None:
    """Put the sentences of a language where a command and all below it have keys."""
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
    """The whole command, in one language."""
    command = get_command(app)
    localize(command, text)
    return command

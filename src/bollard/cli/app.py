"""The tree of commands, and one command line from its arguments to its exit code.

Groups are imported when they are used. A help text is a key until `localize` replaces it by a text of the language. An
error becomes a sentence, a hint and an exit code in `run` and nowhere else.
"""

import importlib
import io
import os
import sys
import traceback
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, TextIO, cast

import typer
from typer.main import get_command

from bollard import __version__
from bollard.cli.command import USAGE_ERROR, Group, first_paragraph, shell_of
from bollard.cli.errors import EXIT_INTERRUPTED, CliError, UsageProblem
from bollard.cli.language import LANGUAGES, Text, choose_language, load_text
from bollard.cli.shell import read_invocation
from bollard.cli.terminal.columns import escaped, printable
from bollard.extras import install_command
from bollard.host.errors import ExplainedError

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
        "schedules": "agents.schedules:app",
        "hooks": "agents.hooks:app",
        "bots": "agents.bots:app",
        "subscriptions": "agents.subscriptions:app",
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
        "actors": "identity.actors:app",
        "people": "identity.people:app",
        "keys": "identity.keys:app",
        "secrets": "agents.secrets:app",
        "workspaces": "identity.workspaces:app",
        "login": "identity.session:login",
        "logout": "identity.session:logout",
        "whoami": "identity.session:whoami",
        "console": "identity.console:console",
        "plugin": "plugins.installed:app",
        "catalogue": "plugins.catalogue:app",
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
        # Options that typer adds (--install-completion) have English texts, and keys by their names.
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


# --- one command line ---


class _Escaped:
    """A stream that escapes text. Bytes written to its buffer, such as an artifact, are not changed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(escaped(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def escaped_output() -> Generator[None]:
    """Escape everything that is written to stdout and stderr in the block."""
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast("TextIO", _Escaped(out)), cast("TextIO", _Escaped(err))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run one command line and return its exit code."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # invalid bytes are replaced
            stream.reconfigure(errors="replace")
    with escaped_output():
        return _run(arguments, environment)


def _run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    text = load_text(choose_language(environment))
    try:
        rest, shell = read_invocation(arguments, environment, stdout_is_terminal=sys.stdout.isatty())
        text = shell.text
        code = build(text).main(args=rest, prog_name="bollard", standalone_mode=False, obj=shell)
        sys.stdout.flush()
    except CliError as error:
        return _tell_problem(error, text)
    except BrokenPipeError:
        # The reader of our output is gone; the buffer must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("\n")
        return EXIT_INTERRUPTED
    except USAGE_ERROR as error:
        return _usage_error(error, text)
    except Exception as error:  # noqa: BLE001 -- the last boundary: a bug becomes a message
        if (problem := _known_problem(error)) is not None:
            return _tell_problem(problem, text)
        if environment.get("BOLLARD_DEBUG"):
            traceback.print_exc()
        detail = f"{type(error).__name__}: {error}"
        return _tell(text("error.bug", detail=detail), text("hint.bug"), 1, text)
    return code if isinstance(code, int) else 0


def _known_problem(error: Exception) -> CliError | None:
    """The problem if the host's code, running in this process, raises an error of its own or is not installed."""
    if isinstance(error, ImportError):
        if (error.name or "").startswith("bollard"):
            return None
        return UsageProblem("error.no_host", "hint.no_host", module=error.name, command=install_command("host"))
    from bollard.cli.client.host_client import problem_of
    from bollard.host.errors import HostError

    return problem_of(error) if isinstance(error, HostError) else None


def _tell_problem(error: CliError, text: Text) -> int:
    return _tell(*error.sentences(text), error.exit_code, text)


def _tell(sentence: str, hint: str, code: int, text: Text) -> int:
    sys.stderr.write(printable(f"bollard: {sentence}\n{text('hint', hint=hint)}\n"))
    return code


def _usage_error(error: Any, text: Text) -> int:
    """The parser's errors by class, because their messages are English only."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stdout.write(error.ctx.get_help() + "\n")
        return 0
    path = error.ctx.command_path if error.ctx is not None else "bollard"
    param = getattr(error, "param", None)
    named = (param.metavar if param.param_type_name == "argument" else param.opts[0]) if param is not None else ""
    near = ", ".join(getattr(error, "possibilities", None) or ())
    match type(error).__name__:
        case "NoSuchOption":
            problem = UsageProblem(
                "error.option",
                "hint.option_near" if near else "hint.help",
                word=error.option_name,
                near=near,
                path=path,
            )
        case "MissingParameter":
            problem = UsageProblem("error.missing", "hint.help", word=named, path=path)
        case "BadOptionUsage":
            problem = UsageProblem("error.option_value", "hint.help", word=error.option_name, path=path)
        case "BadParameter":
            problem = UsageProblem("error.value", "hint.help", word=named, detail=_value_problem(error), path=path)
        case _:
            detail = ValueError(error.format_message().rstrip("."))
            problem = UsageProblem("error.usage", "hint.help", detail=detail, path=path)
    return _tell_problem(problem, text)


def _value_problem(error: Any) -> Exception:
    """The problem of a value by its type, because the validator's message is English only."""
    message, cause = error.message.rstrip("."), error.__cause__
    if type(cause).__name__ != "ValidationError":
        return ValueError(message)
    from bollard.protocol.shape import problem_details

    details = problem_details(cause)
    return ExplainedError(message, str(details.pop("problem_type")), **details)

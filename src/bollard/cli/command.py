"""The parts of a command: its shell, its options, its help page, and its group.

A command is a function whose first parameter is a `Shell`, or a `HostShell` if it sends requests to a host. The other
parameters are Typer's. A parameter whose type is a dataclass stands for one option per field, so that a command with
many options takes them as one value. Help texts are keys of the catalogue; `localize` in `app` replaces them.
"""

import dataclasses
import difflib
import functools
import inspect
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text
from bollard.cli.limits import HELP_COLUMNS
from bollard.cli.shell import HostShell, Shell
from bollard.cli.terminal.columns import Column, width_of, wrap

if TYPE_CHECKING:
    from bollard.cli.client.documents import Resource

UrlOption = Annotated[str | None, typer.Option("--url", metavar="URL", help="option.url")]
TokenOption = Annotated[str | None, typer.Option("--token", metavar="TOKEN", help="option.token")]
DocumentFile = Annotated[str, typer.Argument(metavar="FILE.json|-", help="documents.file")]

_LEFT_COLUMNS = 26
"""Widest left column of a table; a longer name gets a line of its own."""

Rows = list[tuple[str, str]]

_SYNONYMS = (
    {"delete", "remove", "rm", "uninstall"},
    {"add", "create", "save", "new", "install"},
    {"list", "ls"},
    {"show", "get", "describe", "info"},
    {"cancel", "stop", "kill"},
)
"""Words that people type for the same thing. The hint names the one that the group has, before a similar spelling."""


def help_page(command: Any, ctx: Any, text: Text) -> str:
    """The whole page. `command` and `ctx` are typer's, whose own types are private to it."""
    columns = min(HELP_COLUMNS, shutil.get_terminal_size().columns)
    parts = [f"{_heading(text('help.usage'))} {_usage(command, ctx)}", ""]
    for paragraph in (command.help or "").split("\n\n"):
        parts += [f"  {line}" for line in wrap(paragraph, columns - 4)] + [""]
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.get_params(ctx) if param.param_type_name == "option" and not param.hidden]
    parts += _table(text("help.arguments"), [(_argument(param), param.help or "") for param in arguments], columns)
    parts += _table(text("help.options"), [_option_row(param, text) for param in options], columns)
    if hasattr(command, "summaries"):
        parts += _table(text("help.commands"), command.summaries(ctx), columns)
    for paragraph in (command.epilog or "").split("\n\n"):
        parts += wrap(paragraph, columns - 2) if paragraph else []  # room for a closing mark
    return "\n".join(parts).rstrip()


def _heading(title: str) -> str:
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return title if plain else f"\x1b[1m{title}\x1b[0m"


def _usage(command: Any, ctx: Any) -> str:
    pieces = [ctx.command_path, "[OPTIONS]"]
    pieces += [_argument(param) for param in command.params if param.param_type_name == "argument"]
    if hasattr(command, "summaries"):
        pieces.append("COMMAND [ARGS]...")
    return " ".join(pieces)


def _argument(param: Any) -> str:
    name = param.metavar or param.name.upper()
    return (name if param.required else f"[{name}]") + ("" if param.nargs == 1 else "...")


def _option_row(param: Any, text: Text) -> tuple[str, str]:
    left = ", ".join(sorted(param.opts, key=len)) + (f" {param.metavar}" if param.metavar else "")
    # Only numeric defaults are shown; the texts describe the others.
    default = text("help.default", value=f"{param.default:g}") if isinstance(param.default, float) else ""
    return left, f"{param.help or ''}{default}"


def _table(title: str, rows: Rows, columns: int) -> list[str]:
    if not rows:
        return []
    left = min(_LEFT_COLUMNS, max(width_of(name) for name, _ in rows))
    lines = [_heading(title)]
    for name, described in rows:
        right = wrap(described, columns - left - 6)
        if width_of(name) > left:
            lines.append(f"  {name}")
        else:
            lines.append(f"  {name}{' ' * (left - width_of(name))}  {right.pop(0)}")
        lines += [f"  {' ' * left}  {line}" for line in right]
    return [*lines, ""]


def shell_of(ctx: Any) -> Shell:
    return ctx.find_root().obj


def _explained(option: Any, ctx: Any) -> Any:
    if option is not None:
        option.help = shell_of(ctx).text("option.help")
    return option


USAGE_ERROR: Final[Any] = typer.BadParameter.__bases__[0]
"""The parser's own error, which typer does not export."""


class Command(TyperCommand):
    """A command with our help page."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The parser's own error about extra arguments has only an English sentence."""
        takes_more, ctx.allow_extra_args = ctx.allow_extra_args, True
        try:
            rest = super().parse_args(ctx, args)
        except USAGE_ERROR as error:
            error.ctx = ctx  # the parser does not set it for an option without its value
            raise
        if rest and not takes_more and not ctx.resilient_parsing:
            raise UsageProblem("error.extra", "hint.help", words=" ".join(rest), path=ctx.command_path)
        return rest

    def get_help(self, ctx: Any) -> str:
        return help_page(self, ctx, shell_of(ctx).text)

    def get_help_option(self, ctx: Any) -> Any:
        return _explained(super().get_help_option(ctx), ctx)


class Group(TyperGroup):
    """A group of commands with our help page, and a hint for an unknown command."""

    def get_help(self, ctx: Any) -> str:
        return help_page(self, ctx, shell_of(ctx).text)

    def get_help_option(self, ctx: Any) -> Any:
        return _explained(super().get_help_option(ctx), ctx)

    def summaries(self, ctx: Any) -> list[tuple[str, str]]:
        """Each command and the first sentence of its help."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return [(name, first_paragraph(command.help)) for name, command in found if command is not None]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            synonyms = [name for words in _SYNONYMS if args[0] in words for name in known if name in words]
            near = synonyms or difflib.get_close_matches(args[0], known, n=1)
            hint = "hint.command_near" if near else "hint.help"
            path = ctx.command_path
            raise UsageProblem("error.command", hint, word=args[0], path=path, near=near[0] if near else "")
        return super().resolve_command(ctx, args)


def first_paragraph(text: str | None) -> str:
    return (text or "").split("\n\n")[0]


Function = TypeVar("Function", bound=Callable[..., int])


def injected(function: Callable[..., int], *, own_options: bool = True) -> Callable[..., int]:
    """The function as Typer calls it: with a context, its own options, and `--url` and `--token` for a `HostShell`.

    Without `own_options` the function runs with the defaults of its parameters.
    """
    receiver, *own = inspect.signature(function, eval_str=True).parameters.values()
    groups: dict[str, Any] = {each.name: each.annotation for each in own if dataclasses.is_dataclass(each.annotation)}
    asks_host = receiver.annotation is HostShell
    options = [option for each in own for option in _options_of(each)] if own_options else []
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    of_host = [_option("url", UrlOption, None), _option("token", TokenOption, None)] if asks_host else []

    @functools.wraps(function)
    def called(ctx: typer.Context, **given: Any) -> int:
        shell = shell_of(ctx)
        if asks_host:
            from bollard.cli.client.host_client import find_host

            client = find_host(given.pop("url"), given.pop("token"), os.environ)
            shell = HostShell(text=shell.text, mode=shell.mode, asked=shell.asked, client=client)
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in dataclasses.fields(kind)})
        return function(shell, **given)

    signature = inspect.Signature([context, *options, *of_host], return_annotation=int)
    called.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue] -- Typer reads it
    called.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
    return called


def _options_of(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    kind = parameter.annotation
    if not dataclasses.is_dataclass(kind):
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        return
    annotations = inspect.get_annotations(kind, eval_str=True)  # pyright: ignore[reportArgumentType] -- a class
    for field in dataclasses.fields(kind):
        missing = field.default is dataclasses.MISSING
        yield _option(field.name, annotations[field.name], inspect.Parameter.empty if missing else field.default)


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


class CommandGroup(typer.Typer):
    """The commands of one noun. The help text of the group has the key `NOUN`, that of a command `NOUN.COMMAND`."""

    def __init__(self, noun: str) -> None:
        super().__init__(
            cls=Group, help=noun, no_args_is_help=True, rich_markup_mode=None, add_completion=False, callback=_nothing
        )
        self._noun = noun

    def command(self, name: str | None = None, **options: Any) -> Callable[[Function], Function]:
        """Add a function as a command; `options` are Typer's."""
        register = super().command(name, cls=Command, help=f"{self._noun}.{name}", **options)

        def add(function: Function) -> Function:
            register(injected(function))
            return function

        return add

    def default(self, function: Function, *, own_options: bool = False) -> Function:
        """Run a function if no command is named. Without `own_options` the group takes none of its options."""
        run = injected(function, own_options=own_options)

        @functools.wraps(run)
        def called(ctx: typer.Context, **given: Any) -> int:
            return run(ctx, **given) if ctx.invoked_subcommand is None else 0

        self.callback(invoke_without_command=True, no_args_is_help=False)(called)
        return function

    def add_list(self, resource: "Resource", columns: Sequence[Column], *, none: str | None = None) -> None:
        """Add `list`, which also runs if no command is named. `none` is the key of the text for an empty list."""

        def list_all(shell: HostShell) -> int:
            return shell.show_items({"items": shell.all(resource)}, self._noun, columns, none=none)

        self.command("list")(self.default(list_all))

    def add_show(self, resource: "Resource", argument: "Argument", lines: "Lines") -> None:
        """Add `show`, which prints the details of one resource."""

        def show(shell: HostShell, name: str) -> int:
            found = shell.get(resource.one(name))
            return shell.show(found, lines(found, shell.text))

        self.command("show")(_named(show, argument))

    def add_save(self, resource: "Resource", lines: "Lines") -> None:
        """Add `save`, which saves the document of a file under the id in the document."""

        def save(shell: HostShell, file: DocumentFile) -> int:
            from bollard.cli.client.documents import read_json_document

            document = read_json_document(file)
            name = document.get(resource.key)
            if not isinstance(name, str) or not name:
                raise UsageProblem("error.unnamed", "hint.unnamed", path=file, field=resource.key)
            saved = shell.put(resource.one(name), document)
            return shell.show(saved, lines(saved, shell.text))

        self.command("save")(save)

    def add_delete(self, resource: "Resource", argument: "Argument", verb: str = "delete") -> None:
        """Add `delete` or `remove`; the key of its text is the past tense."""

        def delete(shell: HostShell, name: str) -> int:
            answer = shell.delete(resource.one(name))
            return shell.tell(answer, shell.text(f"{self._noun}.{verb}d", **{argument[0]: name}))

        self.command(verb)(_named(delete, argument))


def single_command(name: str) -> Callable[[Callable[..., int]], typer.Typer]:
    """A command without a group, as `COMMANDS` names it. The key of its help text is its name."""

    def build(function: Callable[..., int]) -> typer.Typer:
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        app.command(name, cls=Command, help=name)(injected(function))
        return app

    return build


Argument = tuple[str, Any]
"""The argument that names one resource: the parameter's name and its annotation."""
Lines = Callable[[dict[str, Any], Text], Iterable[str]]
"""The lines that describe a value of the host."""


def _nothing() -> None:
    """Keeps a group with a single command a group."""


def _named(function: Callable[[HostShell, str], int], argument: Argument) -> Callable[..., int]:
    """The function with another name and annotation of its second parameter."""
    name, annotation = argument

    def called(shell: HostShell, **given: str) -> int:
        return function(shell, given[name])

    receiver = inspect.Parameter("shell", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=HostShell)
    signature = inspect.Signature([receiver, _option(name, annotation, inspect.Parameter.empty)])
    called.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess] -- `injected` reads it
    return called

"""The help page of a command: usage, arguments, options, commands. Plain text, so that it is there at once."""

import os
import shutil
import sys
from typing import Any

from bollard.cli.columns import width_of, wrap
from bollard.cli.language import Text
from bollard.cli.limits import HELP_COLUMNS

__all__ = ["help_page"]

_LEFT_COLUMNS = 26
"""Widest left column of a table; a longer name gets a line of its own."""

Rows = list[tuple[str, str]]


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
        parts += wrap(paragraph, columns) if paragraph else []
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
    # Of the defaults only the numbers say something; the sentences tell the others.
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

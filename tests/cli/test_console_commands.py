"""The commands that the console shows exist, with their options."""

import re
import shlex
from pathlib import Path
from typing import Any

from tests.tables import for_each
from typer.main import get_command

from bollard.cli.app import COMMANDS, load

CONSOLE = Path(__file__).parents[2] / "console/src"
SHOWN = re.compile(r"""(?P<mark>["'`])(?P<command>bollard [a-z].*?)(?P=mark)""")
GLOBAL = {"--url", "--token", "--json", "--text", "--lang", "--data"}


def shown() -> list[str]:
    """Every command in a string of the console, with a word for each value that the page fills in."""
    found: set[str] = set()
    for path in sorted(CONSOLE.rglob("*.ts*")):
        for match in SHOWN.finditer(path.read_text("utf-8")):
            found.add(re.sub(r"\$\{[^}]*\}", "VALUE", match["command"]).strip())
    return sorted(found)


def test_the_console_shows_commands() -> None:
    assert len(shown()) > 20


@for_each("command", shown())
def test_a_command_of_the_console_exists(command: str) -> None:
    _, name, *rest = shlex.split(command)
    assert name in COMMANDS, command
    target: Any = get_command(load(COMMANDS[name]))
    words = iter(rest)
    if (groups := getattr(target, "commands", None)) and rest and not rest[0].startswith("-"):
        assert rest[0] in groups, f"{name} has no command {rest[0]}: {command}"
        target = groups[next(words)]
    known = {option for param in target.params for option in param.opts} | GLOBAL
    for word in words:
        if word == "--":
            break
        assert not word.startswith("--") or word in known, f"no option {word}: {command}"

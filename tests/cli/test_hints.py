"""A sentence that names a command names one that there is, with options that it has."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.tables import for_each
from typer.main import get_command

from bollard.cli.app import COMMANDS, app, load

ROOT = Path(__file__).resolve().parents[2]
_NAMED = re.compile(r"`bollard ([^`]+)`")
_WORD = re.compile(r"[a-z][a-z-]*")
_OPTION = re.compile(r"--[a-z][a-z-]+")
FILES = sorted(
    path
    for pattern in (
        *("src/**/*.py", "src/**/*.md", "src/bollard/**/text/**/*.json", "src/bollard/host/models/presets.toml"),
        *("docs/**/*.md", "plugins/**/*.py", "README.md", "README.zh-CN.md", "ARCHITECTURE.md"),
    )
    for path in ROOT.glob(pattern)
)


def options_of(command: Any) -> frozenset[str]:
    return frozenset(name for each in command.params for name in (*each.opts, *each.secondary_opts))


def whole_tree() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Each first word: its command, and the commands in it."""
    found = {name: get_command(load(entry)) for name, entry in COMMANDS.items()}
    return {name: (command, getattr(command, "commands", {})) for name, command in found.items()}


TREE = whole_tree()
EVERYWHERE = options_of(get_command(app)) | {"--help"}


def texts_of(path: Path) -> Iterator[str]:
    """The text of a page or of a file of texts, or all texts of a module, with a placeholder for each field."""
    if path.suffix != ".py":
        yield path.read_text(encoding="utf-8")
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def problem_of(named: str) -> str | None:
    """The problem of the words after `bollard`."""
    words = re.split(" (?:--|[>|]) ", named)[0].split()
    if not words or _WORD.fullmatch(words[0]) is None:
        return None  # an option of every command, or something that stands for a command
    if words[0] not in TREE:
        return f"there is no command {words[0]}"
    command, inside = TREE[words[0]]
    if inside and len(words) > 1 and _WORD.match(words[1]):
        for word in words[1].split("|"):
            if word not in inside:
                return f"there is no command {words[0]} {word}"
        command = inside[words[1].split("|")[0]]
        words, inside = [" ".join(words[:2]), *words[2:]], {}
    unknown = sorted(set(_OPTION.findall(" ".join(words))) - options_of(command) - EVERYWHERE)
    if unknown:
        return f"{words[0]} has no {', '.join(unknown)}"
    extra = words[1:] if not inside and takes_no_arguments(command) else []
    loose = [word for before, word in pairwise(["", *extra]) if not word.startswith("-") and not before.startswith("-")]
    return f"{words[0]} takes no {loose[0]}" if loose else None


def takes_no_arguments(command: Any) -> bool:
    return all(each.param_type_name != "argument" for each in command.params)


@for_each(
    ("named", "problem"),
    [
        ("plugin install FOLDER", None),
        ("runs show", None),
        ("up --port 0", None),
        ("plug list", "there is no command plug"),
        ("plugin uninstall", "there is no command plugin uninstall"),
        ("up --prot 0", "up has no --prot"),
        ("chat --agent AGENT --file PATH", None),
        ("chat AGENT --file PATH", "chat takes no AGENT"),
    ],
)
def test_an_unknown_command_in_a_text_is_found(named: str, problem: str | None) -> None:
    assert problem_of(named) == problem


def test_every_command_named_in_a_text_exists() -> None:
    found = 0
    wrong: list[str] = []
    for path in FILES:
        for text in texts_of(path):
            for named in _NAMED.findall(" ".join(text.split())):
                found += 1
                if problem := problem_of(named):
                    wrong.append(f"{path.relative_to(ROOT)}: `bollard {named}`: {problem}")
    assert wrong == []
    assert found > 100, "nothing was looked at"

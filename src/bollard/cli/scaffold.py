"""Writes a new plugin from the templates. Never overwrites, and knows nothing of what the templates say."""

import re
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Final

from bollard.cli.errors import UsageProblem
from bollard.protocol.limits import NAME_CHARACTERS

__all__ = ["NewPlugin", "write_plugin"]

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
_SUFFIX: Final = ".txt"
"""What template files end with, so that no tool takes them for code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPlugin:
    """What was written: the folder or file to name in other commands, and every file."""

    path: Path
    files: tuple[Path, ...]


def write_plugin(name: str, *, into: Path, author: str, single_file: bool) -> NewPlugin:
    """Write a folder of the fixed shape, or one file; raises `UsageProblem` before anything is written."""
    for option, value in (("NAME", name), ("--author", author)):
        if not _NAME.fullmatch(value) or len(value) > NAME_CHARACTERS:
            raise UsageProblem("error.name", "hint.name", option=option, value=value, limit=NAME_CHARACTERS)
    if not into.is_dir():
        raise UsageProblem("error.no_folder", "hint.no_folder", path=into)
    # A file is imported, so its name must be a module's.
    path = into / (re.sub(r"[.-]", "_", name) + ".py" if single_file else name)
    if path.exists() or path.is_symlink():
        raise UsageProblem("error.exists", "hint.exists", path=path)
    title = re.sub(r"[._-]+", " ", name).strip().capitalize() or name
    fields = {"name": name, "author": author, "title": title}
    templates = resources.files("bollard.cli") / "templates"
    try:
        if single_file:
            return NewPlugin(path=path, files=(_write(templates / f"single.py{_SUFFIX}", path, fields),))
        path.mkdir()
        return NewPlugin(path=path, files=tuple(_write_folder(templates / "folder", path, fields)))
    except OSError as error:
        raise UsageProblem("error.write", "hint.write", path=path, detail=error.strerror or error) from error


def _write_folder(source: Traversable, target: Path, fields: dict[str, str]) -> list[Path]:
    target.mkdir(exist_ok=True)
    written: list[Path] = []
    for entry in sorted(source.iterdir(), key=lambda item: (item.is_dir(), item.name)):
        if entry.is_dir():
            written += _write_folder(entry, target / entry.name, fields)
        elif entry.name.endswith(_SUFFIX):
            written.append(_write(entry, target / entry.name.removesuffix(_SUFFIX), fields))
    return written


def _write(source: Traversable, target: Path, fields: dict[str, str]) -> Path:
    content = Template(source.read_text(encoding="utf-8")).substitute(fields)
    with target.open("x", encoding="utf-8") as file:
        file.write(content)
    return target

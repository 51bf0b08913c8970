"""The files that make up a plugin, and the digest that pins them. The host and the worker count the same ones.

What tools leave behind and what is hidden is no part of a plugin: it is neither copied nor counted, so it must not be
what runs.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

__all__ = ["PluginFileError", "digest_of_plugin", "is_left_out", "plugin_files"]

_LEFT_OUT: Final = frozenset({"__pycache__", ".git", ".venv", "node_modules"})
_PIECE: Final = 1 << 20


class PluginFileError(Exception):
    """A file of a plugin cannot be read."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem


def is_left_out(part: str) -> bool:
    """Whether a file or folder of this name is no part of a plugin."""
    return part in _LEFT_OUT or part.startswith(".")


def plugin_files(path: Path) -> Iterator[tuple[str, Path]]:
    """Name inside the plugin, and place, of each of its files: of a folder, or the one file that it is."""
    if path.is_file():
        yield path.name, path
        return
    for file in path.rglob("*"):
        inside = file.relative_to(path)
        if file.is_file() and not any(is_left_out(part) for part in inside.parts):
            yield inside.as_posix(), file


def digest_of_plugin(path: Path) -> str:
    """SHA-256 over the sorted names and the contents of a plugin's files. Raises `PluginFileError`."""
    digest = hashlib.sha256()
    for name, file in sorted(plugin_files(path)):
        try:
            _add_file(name, file, digest.update)
        except OSError as error:
            raise PluginFileError(name, f"cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _add_file(name: str, file: Path, update: Callable[[bytes], object]) -> None:
    """Its name, its length and its content, in pieces: a large file is never in memory as a whole."""
    with file.open("rb") as content:
        size = os.fstat(content.fileno()).st_size
        update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
        while piece := content.read(_PIECE):
            size -= len(piece)
            update(piece)
    if size:
        raise PluginFileError(name, "was changed while it was read")

"""The files of a plugin and the digest that pins them. The host and the worker count the same files.

Hidden files and the caches of tools are not part of a plugin: they are neither copied nor hashed, so they must not run.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_LEFT_OUT: Final = frozenset({"__pycache__", ".git", ".venv", "node_modules"})
_PIECE: Final = 1 << 20


class PluginFileError(Exception):
    """A file of a plugin cannot be read."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem


def is_left_out(part: str) -> bool:
    """Return whether a file or folder of this name is excluded from plugins."""
    return part in _LEFT_OUT or part.startswith(".")


def plugin_files(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name inside the plugin and the path of each file. A plugin is a folder or a single file."""
    if path.is_file():
        yield path.name, path
        return
    for file in path.rglob("*"):
        inside = file.relative_to(path)
        if file.is_file() and not any(is_left_out(part) for part in inside.parts):
            yield inside.as_posix(), file


def digest_of_plugin(path: Path) -> str:
    """Return the SHA-256 of the sorted names and the contents of a plugin's files. Raises `PluginFileError`."""
    digest = hashlib.sha256()
    for name, file in sorted(plugin_files(path)):
        try:
            _add_file(name, file, digest.update)
        except OSError as error:
            raise PluginFileError(name, f"cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _add_file(name: str, file: Path, update: Callable[[bytes], object]) -> None:
    """Hash the name, the size and the content of a file in pieces: a large file is never in memory as a whole."""
    with file.open("rb") as content:
        size = os.fstat(content.fileno()).st_size
        update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
        while piece := content.read(_PIECE):
            size -= len(piece)
            update(piece)
    if size:
        raise PluginFileError(name, "was changed while it was read")

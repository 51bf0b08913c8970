"""The files of a plugin: what it is pinned by, and how Python finds its modules. Runs no plugin code."""

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bollard.runtime.problems import PluginLoadError, Problem

__all__ = ["digest_of", "is_from", "make_importable"]

_LEFT_OUT: Final = frozenset({"__pycache__", ".git", ".venv", "node_modules"})


def digest_of(path: Path) -> str:
    """SHA-256 over names and contents of a plugin's files: what a plugin is pinned by."""
    digest = hashlib.sha256()
    for name, file in sorted(_files(path)):
        try:
            content = file.read_bytes()
        except OSError as error:
            problem = f"cannot be read: {error.strerror}"
            hint = "make it readable, or take it out of the plugin"
            raise PluginLoadError(
                Problem(rule="PL01", where=path.name, field=name, problem=problem, hint=hint)
            ) from error
        digest.update(f"{name}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    if path.is_file():
        yield path.name, path
        return
    for file in path.rglob("*"):
        inside = file.relative_to(path)
        hidden = any(part in _LEFT_OUT or part.startswith(".") for part in inside.parts)
        if file.is_file() and not hidden:
            yield inside.as_posix(), file


def make_importable(folder: Path) -> None:
    """Let Python find the folder's modules: after its own, so that none can be replaced, and before all others.

    Cached bytecode is not looked at from here on: it is not part of the digest, so it must not be what runs.
    """
    sys.dont_write_bytecode = True
    sys.pycache_prefix = os.path.join(os.devnull, "no-cache")
    if str(folder) in sys.path:
        return
    library = Path(os.__file__).parent
    own = {str(library), str(library / "lib-dynload")}
    sys.path.insert(max((at + 1 for at, entry in enumerate(sys.path) if entry in own), default=0), str(folder))


def is_from(folder: Path, module: object) -> bool:
    """Whether a module was found in the folder."""
    file = getattr(module, "__file__", None)
    places = [file] if isinstance(file, str) else [str(place) for place in getattr(module, "__path__", ())]
    return any(Path(place).is_relative_to(folder) for place in places)

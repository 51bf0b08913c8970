"""Finds the files that a saved MCP server names by their absolute paths, such as its script or a configuration."""

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePath
from typing import Final

import msgspec

_INTERPRETER: Final = re.compile(
    r"(?:python|pypy|node|nodejs|bun|deno|uv|tsx|ruby|perl|php|java|dotnet|bash|dash|sh)[\d.]*"
)
_SCRIPTS: Final = frozenset(
    (".cjs", ".dll", ".jar", ".js", ".mjs", ".mts", ".php", ".pl", ".py", ".pyz", ".rb", ".sh", ".ts")
)
_VERBS: Final = frozenset(("exec", "run"))
"""Words before the script, as in `deno run`."""


class NamedFiles(msgspec.Struct, frozen=True):
    """The files that a server gets because it names them, and those that it does not get."""

    script: tuple[str, ...] = ()
    """Its own script, with and without the links that lead to it."""
    allowed: tuple[str, ...] = ()
    """Files below the roots that the operator allows, without links."""
    withheld: tuple[str, ...] = ()


def script_of(command: str, arguments: Sequence[str]) -> str | None:
    """The script that an interpreter is started with: the first argument that is no option. Pure."""
    if not _INTERPRETER.fullmatch(PurePath(command).name):
        return None
    first = next((word for word in arguments if not word.startswith("-") and word not in _VERBS), "")
    return first if first.startswith("/") and PurePath(first).suffix in _SCRIPTS else None


def find_named_files(
    script: str | None,
    words: Iterable[str],
    *,
    allows: Callable[[Path], bool],
    withholds: Callable[[Path], bool],
    writable: Iterable[str],
) -> NamedFiles:
    """Sort the files among the words of a saved server. `allows` says whether a path without links is below a root,
    `withholds` whether it belongs to the host or holds credentials. A server could put links into `writable` folders,
    so their files are not named ones."""
    written = [Path(each).resolve() for each in writable]
    scripts: list[str] = []
    allowed: list[str] = []
    withheld: list[str] = []
    for word in words:
        if not word.startswith("/") or "\0" in word:
            continue
        with contextlib.suppress(OSError, RuntimeError):
            path = Path(word)
            real, place = path.resolve(), path.parent.resolve()
            if not real.is_file() or any(place.is_relative_to(each) for each in written):
                continue
            if not withholds(real) and allows(real):
                allowed.append(str(real))
            elif not withholds(real) and not allows(place) and word == script and real.suffix in _SCRIPTS:
                scripts += [word, str(real)]
            else:
                withheld.append(word)
    return NamedFiles(script=tuple(scripts), allowed=tuple(allowed), withheld=tuple(dict.fromkeys(withheld)))

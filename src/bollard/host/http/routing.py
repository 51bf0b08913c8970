"""From a path to what answers it. Exact paths are found in one look; the others part by part in a tree."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar
from urllib.parse import unquote

__all__ = ["Paths"]

T = TypeVar("T")

PATH_CHARACTERS: Final = 4096
"""The longest path that is looked at."""


@dataclass(slots=True)
class _Node(Generic[T]):
    """One part of a path: what follows by name, and what follows whatever it is called."""

    named: dict[str, "_Node[T]"] = field(default_factory=dict[str, "_Node[T]"])
    any: "_Node[T] | None" = None
    found: "dict[str, tuple[T, tuple[str, ...]]]" = field(default_factory=dict[str, "tuple[T, tuple[str, ...]]"])
    """By method: what answers, and what the parts are called that the request chose."""


class Paths(Generic[T]):
    """Paths with a thing for each method."""

    def __init__(self, things: Iterable[tuple[str, str, T]]) -> None:
        """Method, path and thing. Two for one method and path are a mistake of ours."""
        self._exact: dict[tuple[str, str], T] = {}
        self._root: _Node[T] = _Node()
        for method, path, thing in things:
            self._add(method, path, thing)
            if method == "GET":
                self._add("HEAD", path, thing)

    def _add(self, method: str, path: str, thing: T) -> None:
        node, names = self._root, list[str]()
        for part in path.split("/")[1:]:
            if part.startswith("{"):
                names.append(part[1:-1])
                node.any = node = node.any or _Node()
            else:
                node = node.named.setdefault(part, _Node())
        if method in node.found:
            raise ValueError(f"{method} {path} is there twice")
        node.found[method] = (thing, tuple(names))
        if not names:
            self._exact[method, path] = thing

    def find(self, method: str, path: str, raw: bytes | None = None) -> "tuple[T, dict[str, str]] | None":
        """What answers, and the parts that the request chose. In the raw path a part may hold an encoded slash."""
        thing = self._exact.get((method, path))
        if thing is not None:
            return thing, {}
        for node, chosen in self._nodes(path, raw):
            here = node.found.get(method)
            if here is not None:
                return here[0], dict(zip(here[1], chosen, strict=True))
        return None

    def methods(self, path: str, raw: bytes | None = None) -> list[str]:
        """What is possible at a path."""
        return sorted({method for node, _ in self._nodes(path, raw) for method in node.found})

    def _nodes(self, path: str, raw: bytes | None) -> "Iterator[tuple[_Node[T], tuple[str, ...]]]":
        """Where a path may lead: parts that have its name before those that take any."""
        if not path.startswith("/") or len(path) > PATH_CHARACTERS:
            return
        parts = path.split("/")
        if raw is not None and b"%2f" in raw.lower():
            parts = [unquote(part) for part in raw.decode("latin-1").split("/")]
        here: list[tuple[_Node[T], tuple[str, ...]]] = [(self._root, ())]
        for part in parts[1:]:
            behind: list[tuple[_Node[T], tuple[str, ...]]] = []
            for node, chosen in here:
                if (named := node.named.get(part)) is not None:
                    behind.append((named, chosen))
                if node.any is not None and part:
                    behind.append((node.any, (*chosen, part)))
            here = behind
            if not here:
                return
        yield from here

"""Finds the permission whose lack made a confined program fail, in the connections that it was refused and in what it
printed. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

import msgspec

from bollard.host.reason import Why, why

_REFUSAL: Final = re.compile(
    r"no such file|not found|cannot find|can't open|cannot open|permission denied|read-only file system"
    r"|ENOENT|EACCES|EPERM|EROFS",
    re.IGNORECASE,
)
_WRITING: Final = re.compile(r"permission denied|read-only file system|EACCES|EPERM|EROFS", re.IGNORECASE)
_PATH: Final = re.compile(r"(?<![\w./:~-])/[^\s'\"`:,;()<>\[\]\x00-\x1f]+")
_NETWORK_FAILED: Final = re.compile(
    r"getaddrinfo|EAI_AGAIN|\bENOTFOUND|ENETUNREACH|name resolution|network is unreachable|dns error", re.IGNORECASE
)

Lacks = Callable[[str], bool]
"""Whether the sandbox lacks a path, or the right to write it."""


class Lack(msgspec.Struct, frozen=True):
    """What is missing: the consent to places (`what` lists them as `host:port`), a path to read or to write, or a
    network that needs no proxy."""

    kind: Literal["places", "read", "write", "network"]
    what: str = ""


def find_lack(refused: Sequence[str], lines: Iterable[str], hides: Lacks, blocks: Lacks) -> Lack | None:
    """The first cause that is found. `refused` are places as `host:port`; `hides` says whether the sandbox lacks a
    path, `blocks` whether it is shown without the right to write."""
    if refused:
        return Lack("places", ", ".join(refused))
    texts = [*lines]
    for line in reversed([line for line in texts if _REFUSAL.search(line)]):
        for path in _PATH.findall(line):
            if hides(path):
                return Lack("read", path)
            if _WRITING.search(line) and blocks(path):
                return Lack("write", path)
    return Lack("network") if any(_NETWORK_FAILED.search(line) for line in texts) else None


def explain_lack(lack: Lack) -> Why:
    """The sentence for a plugin, with the field of its manifest."""
    match lack.kind:
        case "places":
            sentence = f"spec.sandbox.network of the plugin does not admit {lack.what}"
            return why(sentence, "workers.network_missing", places=lack.what)
        case "read":
            needs = "spec.sandbox.read; sandbox_roots must allow it"
            sentence = f"its sandbox does not have {lack.what} ({needs})"
            return why(sentence, "workers.path_missing", path=lack.what)
        case "write":
            needs = "spec.sandbox.write; sandbox_roots must allow it"
            sentence = f"its sandbox does not let it write {lack.what} ({needs})"
            return why(sentence, "workers.write_missing", path=lack.what)
        case "network":
            sentence = "its sandbox has no network but its proxy (spec.sandbox.network)"
            return why(sentence, "workers.network_direct")

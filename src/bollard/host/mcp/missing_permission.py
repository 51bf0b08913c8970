"""Finds the permission whose lack ended a confined MCP server, in the connections that it was refused and in what it
printed. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

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
    r"getaddrinfo|EAI_AGAIN|ENOTFOUND|ENETUNREACH|name resolution|network is unreachable|dns error", re.IGNORECASE
)

Lacks = Callable[[str], bool]
"""Whether a path exists on the machine, and the sandbox does not have it."""


class MissingPermission(msgspec.Struct, frozen=True):
    """What the server lacks: a sentence, and what an operator can do."""

    problem: Why
    hint: str


MEMORY_USED_UP: Final = MissingPermission(
    why("its memory was used up", "mcp.memory_used_up"),
    "save it with a larger `sandbox.memory_mib`, or raise the setting workspace_memory_mib",
)


def missing_permission(
    refused: Sequence[str], lines: Iterable[str], hides: Lacks, blocks: Lacks
) -> MissingPermission | None:
    """The first cause that is found. `refused` are places as `host:port`; `hides` says whether the sandbox lacks a
    path, `blocks` whether it is shown without the right to write."""
    if refused:
        places = ", ".join(refused)
        return MissingPermission(
            why(f"it may not reach {places}", "mcp.network_missing", places=places),
            "if it needs that, save it with these names in `sandbox.network`",
        )
    texts = [*lines]
    for line in reversed([line for line in texts if _REFUSAL.search(line)]):
        for path in _PATH.findall(line):
            if hides(path):
                return _path_missing("mcp.path_missing", path, f"its sandbox does not have {path}", "read")
            if _WRITING.search(line) and blocks(path):
                return _path_missing("mcp.write_missing", path, f"its sandbox does not let it write {path}", "write")
    if any(_NETWORK_FAILED.search(line) for line in texts):
        return MissingPermission(
            why("it has no network, except through the proxy of its sandbox", "mcp.network_direct"),
            "save it with the names that it needs in `sandbox.network`; it must use HTTPS_PROXY",
        )
    return None


def _path_missing(problem_type: str, path: str, sentence: str, field: str) -> MissingPermission:
    hint = f"save it with the folder in `sandbox.{field}`; the setting sandbox_roots must allow that"
    return MissingPermission(why(sentence, problem_type, path=path), hint)

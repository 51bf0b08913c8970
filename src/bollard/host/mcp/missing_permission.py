"""Names the permission whose lack ended a confined MCP server. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from bollard.host.reason import Why, why
from bollard.host.workers.missing_permission import Lacks, find_lack


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
    """The first cause that `find_lack` finds."""
    lack = find_lack(refused, lines, hides, blocks)
    if lack is None:
        return None
    match lack.kind:
        case "places":
            return MissingPermission(
                why(f"it may not reach {lack.what}", "mcp.network_missing", places=lack.what),
                "if it needs that, save it with these names in `sandbox.network`",
            )
        case "read":
            return _path_missing("mcp.path_missing", lack.what, f"its sandbox does not have {lack.what}", "read")
        case "write":
            sentence = f"its sandbox does not let it write {lack.what}"
            return _path_missing("mcp.write_missing", lack.what, sentence, "write")
        case "network":
            return MissingPermission(
                why("it has no network, except through the proxy of its sandbox", "mcp.network_direct"),
                "save it with the names that it needs in `sandbox.network`; it must use HTTPS_PROXY",
            )


def _path_missing(problem_type: str, path: str, sentence: str, field: str) -> MissingPermission:
    hint = f"save it with the folder in `sandbox.{field}`; the setting sandbox_roots must allow that"
    return MissingPermission(why(sentence, problem_type, path=path), hint)

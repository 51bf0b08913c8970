"""What a caller may do, and which role may do how much of it. One table: what is not in a row is refused.

A right is `noun.verb`. Some are the installation's alone, because what they reach is of every workspace; no role has
them, and only the admin token, or a key that was made with it, can.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

__all__ = ["INSTALLATION_RIGHTS", "RIGHTS", "RIGHTS_OF", "ROLES", "Right", "Role", "rights_of"]

Right = Literal[
    "runs.read",
    "runs.create",
    "runs.control",
    "runs.execute",
    "grants.read",
    "grants.revoke",
    "events.post",
    "events.read",
    "agents.read",
    "agents.write",
    "bindings.read",
    "bindings.write",
    "runners.read",
    "plugins.read",
    "plugins.write",
    "channels.read",
    "channels.write",
    "conversations.read",
    "artifacts.read",
    "artifacts.write",
    "files.read",
    "files.write",
    "state.write",
    "capabilities.read",
    "tools.read",
    "mcp.read",
    "mcp.write",
    "skills.read",
    "skills.write",
    "models.read",
    "models.write",
    "knowledge.read",
    "knowledge.ask",
    "knowledge.write",
    "approvals.read",
    "approvals.decide",
    "secrets.read",
    "secrets.write",
    "audit.read",
    "audit.export",
    "users.read",
    "users.write",
    "keys.read",
    "keys.write",
    "workspaces.read",
    "workspaces.write",
    "actors.assume",
    "metrics.read",
    "host.operate",
]
Role = Literal["viewer", "member", "operator", "admin"]

RIGHTS: Final[tuple[Right, ...]] = get_args(Right)
ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""From the least to the most: each may do what those before it may."""

INSTALLATION_RIGHTS: Final[frozenset[Right]] = frozenset(
    {"workspaces.write", "plugins.write", "mcp.write", "metrics.read", "host.operate"}
)
"""What reaches beyond one workspace. Plugins too, and MCP servers that are commands: they run as the host's user."""

_ADDED: Final[Mapping[Role, tuple[Right, ...]]] = MappingProxyType(
    {
        "viewer": (
            "runs.read",
            "grants.read",
            "events.read",
            "agents.read",
            "bindings.read",
            "runners.read",
            "plugins.read",
            "channels.read",
            "conversations.read",
            "artifacts.read",
            "files.read",
            "capabilities.read",
            "tools.read",
            "skills.read",
            "models.read",
            "knowledge.read",
            "approvals.read",
            "workspaces.read",
        ),
        "member": ("runs.create", "runs.control", "knowledge.ask", "approvals.decide"),
        "operator": (
            "runs.execute",
            "grants.revoke",
            "events.post",
            "agents.write",
            "bindings.write",
            "channels.write",
            "actors.assume",
            "mcp.read",
            "skills.write",
            "artifacts.write",
            "files.write",
            "state.write",
            "knowledge.write",
            "secrets.read",
            "audit.read",
            "users.read",
            "keys.read",
            "keys.write",
        ),
        "admin": ("users.write", "secrets.write", "models.write", "audit.export"),
    }
)


def _summed() -> dict[Role, frozenset[Right]]:
    found: dict[Role, frozenset[Right]] = {}
    so_far: frozenset[Right] = frozenset()
    for role in ROLES:
        so_far = found[role] = so_far | frozenset(_ADDED[role])
    return found


RIGHTS_OF: Final[Mapping[Role, frozenset[Right]]] = MappingProxyType(_summed())
"""What each role may do."""


def rights_of(role: Role) -> frozenset[Right]:
    return RIGHTS_OF[role]

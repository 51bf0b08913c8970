"""Who makes a request. A frozen value, made once when its token is issued or read: a request only finds it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

import msgspec

# What a caller may do, and which role may do how much of it. One table: what is not in a row is refused.
#
# A right is `noun.verb`. Some are the installation's alone, because what they reach is of every workspace; no role has
# them, and only the admin token, or a key that was made with it, can.


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


ADMIN_TOKEN = "admin-token"  # noqa: S105 -- what the log says of who used it
DEFAULT_WORKSPACE = "default"
"""The workspace that is there from the first start on."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """One identity in one workspace."""

    workspace: str
    kind: Literal["installation", "key", "session", "run"]
    """A `run` is whoever holds the token of one run."""
    name: str
    """What the log says (`by`): `admin-token`, `key:<id>` or `user:<id>`."""
    user_id: str | None = None
    """The user behind a session, or behind a key that a user made."""
    role: Role | None = None
    """The user's; nobody's who is no user."""
    rights: frozenset[Right] = frozenset()

    def may(self, right: Right) -> bool:
        return right in self.rights

    @property
    def actor(self) -> tuple[str, str] | None:
        """Type and id of the actor that the caller's own messages have; nobody's for the installation."""
        if self.kind == "installation":
            return None
        kind, _, name = self.name.partition(":")
        return ("user", self.user_id) if self.user_id is not None else (kind, name)


_EVERYTHING = frozenset(RIGHTS)


def installation(workspace: str = DEFAULT_WORKSPACE) -> Caller:
    """Who holds the admin token, in the workspace that was asked for."""
    return Caller(workspace=workspace, kind="installation", name=ADMIN_TOKEN, rights=_EVERYTHING)

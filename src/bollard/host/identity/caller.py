"""Callers, their rights and roles. A caller is built when its token is issued or loaded; a request only looks it up.

A right is `noun.verb`, and a right that is not in the table of a role is refused. Some rights reach beyond one
workspace: no role has them, only the admin token and keys that were created with it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

import msgspec

from bollard.host.errors import Forbidden
from bollard.host.scope import Actor

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
    "hooks.read",
    "hooks.write",
    "schedules.read",
    "schedules.write",
    "subscriptions.read",
    "subscriptions.write",
    "conversations.read",
    "conversations.write",
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
"""In rising order: each role includes those before it."""

INSTALLATION_RIGHTS: Final[frozenset[Right]] = frozenset(
    {"workspaces.write", "plugins.write", "mcp.write", "metrics.read", "host.operate"}
)
"""Rights beyond one workspace. Plugins and MCP servers are among them because they run as the host's user."""

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
            "hooks.read",
            "schedules.read",
            "subscriptions.read",
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
            "hooks.write",
            "schedules.write",
            "subscriptions.write",
            "conversations.write",
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


def _accumulate() -> dict[Role, frozenset[Right]]:
    rights: dict[Role, frozenset[Right]] = {}
    so_far: frozenset[Right] = frozenset()
    for role in ROLES:
        so_far = rights[role] = so_far | frozenset(_ADDED[role])
    return rights


RIGHTS_OF: Final[Mapping[Role, frozenset[Right]]] = MappingProxyType(_accumulate())
"""The rights of each role."""


def rights_of(role: Role) -> frozenset[Right]:
    return RIGHTS_OF[role]


ADMIN_TOKEN = "admin-token"  # noqa: S105 -- a name in the log, not a token
DEFAULT_WORKSPACE = "default"
"""The workspace that exists from the first start."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """One identity in one workspace."""

    workspace: str
    kind: Literal["installation", "key", "session", "run"]
    """A `run` is the holder of the token of one run."""
    name: str
    """The name in the log (`by`): `admin-token`, `key:<id>` or `user:<id>`."""
    user_id: str | None = None
    """The user of a session, or of a key that a user created."""
    role: Role | None = None
    """The role of the user, if there is one."""
    rights: frozenset[Right] = frozenset()
    session: str | None = None
    """The id of the session, if the caller has one. The caller is gone when it ends."""

    def may(self, right: Right) -> bool:
        return right in self.rights

    def require(self, right: Right) -> None:
        """Raises `Forbidden` without the right."""
        if not self.may(right):
            raise Forbidden(
                f"this needs the right {right}",
                reason="right",
                hint="ask an admin of the workspace for a role or a key that has it",
                right=right,
            )

    @property
    def actor(self) -> Actor | None:
        """The actor of the caller's messages; `None` for the installation."""
        if self.kind == "installation":
            return None
        kind, _, name = self.name.partition(":")
        return Actor("user", self.user_id) if self.user_id is not None else Actor(kind, name)


_EVERYTHING = frozenset(RIGHTS)


def installation(workspace: str = DEFAULT_WORKSPACE) -> Caller:
    """The holder of the admin token, in this workspace."""
    return Caller(workspace=workspace, kind="installation", name=ADMIN_TOKEN, rights=_EVERYTHING)

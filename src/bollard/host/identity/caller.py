"""Who makes a request. A frozen value, made once when its token is issued or read: a request only finds it."""

from typing import Literal

import msgspec

from bollard.host.identity.rights import RIGHTS, Right, Role

__all__ = ["ADMIN_TOKEN", "DEFAULT_WORKSPACE", "Caller", "installation"]

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

"""Maps the SHA-256 of a token to its caller, in memory: one lookup per request.

A caller is rebuilt when its user or workspace changes, so it never has more rights than its user has now.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from bollard.host.identity.caller import ADMIN_TOKEN, DEFAULT_WORKSPACE, Caller, Right, rights_of
from bollard.host.identity.entities import User


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """An issued token, by its digest."""

    digest: str
    workspace: str
    kind: Literal["installation", "key", "session"]
    id: str
    user_id: str | None
    rights: frozenset[Right] | None
    """The rights of the token; `None` for all rights of its user."""
    expires_ms: int | None
    session: str | None = None
    """The id of the session, if the token is of one."""


class _Entry(msgspec.Struct, frozen=True):
    caller: Caller
    expires_ms: int | None
    key_id: str | None


class CallerRegistry:
    """The callers of all valid tokens."""

    def __init__(
        self,
        *,
        user_of: Callable[[str, str], User | None],
        is_open: Callable[[str], bool],
        used: Callable[[str, str, int], None],
        now_ms: Callable[[], int],
    ) -> None:
        """`user_of` finds a user by workspace and id; `is_open` tells whether a workspace exists. `used` is called for
        each use of a key with its workspace, its id and the time."""
        self._now_ms = now_ms
        self._user_of = user_of
        self._is_open = is_open
        self._used = used
        self._credentials: dict[str, Credential] = {}
        self._of_user: dict[tuple[str, str], set[str]] = {}
        self._opened: dict[str, _Entry] = {}
        self._current: dict[Caller, set[str]] = {}
        """The digests of the tokens of each caller."""

    def find(self, digest: str, now_ms: int) -> Caller | None:
        """The caller with this digest; `None` if the token has expired, was revoked or never existed."""
        entry = self._opened.get(digest)
        if entry is None:
            return None
        if entry.expires_ms is not None and entry.expires_ms <= now_ms:
            self.drop(digest)
            return None
        if entry.key_id is not None:
            self._used(entry.caller.workspace, entry.key_id, now_ms)
        return entry.caller

    def is_known(self, digest: str) -> bool:
        """Whether a token with this digest was issued and not revoked."""
        return digest in self._credentials

    def expiry_of(self, digest: str) -> int | None:
        """When the token expires; `None` if it does not expire or does not exist."""
        credential = self._credentials.get(digest)
        return None if credential is None else credential.expires_ms

    def put(self, credential: Credential) -> None:
        self._credentials[credential.digest] = credential
        if credential.user_id is not None:
            self._of_user.setdefault((credential.workspace, credential.user_id), set()).add(credential.digest)
        self._open(credential)

    def is_current(self, caller: Caller) -> bool:
        """Whether a valid token has this caller. False after its user changed, or its tokens were revoked or
        expired."""
        if caller.kind in ("installation", "run"):
            if caller.session is None or not self._is_open(caller.workspace):
                return self._is_open(caller.workspace)
            caller = msgspec.structs.replace(caller, workspace=DEFAULT_WORKSPACE)  # it may use every workspace
        now_ms = self._now_ms()
        ends = (self._opened[digest].expires_ms for digest in self._current.get(caller, ()))
        return any(end is None or end > now_ms for end in ends)

    def drop(self, digest: str) -> None:
        self._shut(digest)
        credential = self._credentials.pop(digest, None)
        if credential is None or credential.user_id is None:
            return
        key = (credential.workspace, credential.user_id)
        digests = self._of_user.get(key, set())
        digests.discard(digest)
        if not digests:
            self._of_user.pop(key, None)

    def refresh_user(self, workspace: str, user_id: str) -> None:
        """Called when the user was created, changed or deleted."""
        for digest in list(self._of_user.get((workspace, user_id), ())):
            self._open(self._credentials[digest])

    def refresh_workspace(self, workspace: str) -> None:
        """Called when the workspace was opened or closed."""
        for credential in list(self._credentials.values()):
            if credential.workspace == workspace:
                self._open(credential)

    def _open(self, credential: Credential) -> None:
        self._shut(credential.digest)
        caller = self._caller(credential)
        if caller is not None:
            key_id = credential.id if credential.kind == "key" else None
            self._opened[credential.digest] = _Entry(caller, credential.expires_ms, key_id)
            self._current.setdefault(caller, set()).add(credential.digest)

    def _shut(self, digest: str) -> None:
        opened = self._opened.pop(digest, None)
        if opened is not None:
            digests = self._current[opened.caller]
            digests.discard(digest)
            if not digests:
                del self._current[opened.caller]

    def _caller(self, credential: Credential) -> Caller | None:
        if not self._is_open(credential.workspace):
            return None
        rights, role = credential.rights, None
        if credential.user_id is not None:
            user = self._user_of(credential.workspace, credential.user_id)
            if user is None or user.disabled:
                return None
            role = user.role
            rights = rights_of(role) if rights is None else rights & rights_of(role)
        names = {"installation": ADMIN_TOKEN, "key": f"key:{credential.id}", "session": f"user:{credential.user_id}"}
        return Caller(
            workspace=credential.workspace,
            kind=credential.kind,
            name=names[credential.kind],
            user_id=credential.user_id,
            role=role,
            rights=rights or frozenset(),
            session=credential.session,
        )

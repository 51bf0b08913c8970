"""API keys: `blk_<id>_<secret>`, shown once and stored as a digest, with some rights and an expiry.

A key never has more rights than its creator has now: the key of a user follows the user's role and is deleted with the
user, and a key that another key created expires with it.
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, Forbidden, HostError, InvalidRequest, Overloaded
from bollard.host.identity.caller import RIGHTS, Caller, Right
from bollard.host.identity.entities import ApiKey, read
from bollard.host.identity.sessions import digest_of
from bollard.host.identity.tokens import CallerRegistry, Credential
from bollard.host.limits import KEY_LIFE_MAX_S, KEY_LIFE_S, KEY_USE_S, KEYS_OF_WORKSPACE
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import JointChange, Repository, ResourceKind, Saved, SavedChanges
from bollard.host.store.rows import DropKept, KeptRow, PutKept
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

# The last use of each key: stored beside the log, at most once a minute per key.


_log = structlog.get_logger("bollard.host.identity")
KEY_USE: Final = "key_use"


class KeyUses:
    """One per host."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._last: dict[tuple[str, str], int] = {}

    async def load(self, store: Store) -> None:
        for row in await asyncio.to_thread(store.all_kept, KEY_USE):
            self._last[row.workspace, row.id] = row.updated_ms

    def last(self, workspace: str, key_id: str) -> int | None:
        """In milliseconds; up to a minute late."""
        return self._last.get((workspace, key_id))

    def forget(self, workspace: str, key_id: str) -> None:
        """The key was deleted."""
        self._last.pop((workspace, key_id), None)

    def note(self, workspace: str, key_id: str, now_ms: int) -> None:
        """Called for every request with a key, so most calls cost one lookup."""
        before = self._last.get((workspace, key_id))
        if before is not None and 0 <= now_ms - before < KEY_USE_S * 1000:
            return
        self._last[workspace, key_id] = now_ms
        row = KeptRow(kind=KEY_USE, workspace=workspace, id=key_id, body=b"", expires_ms=None, updated_ms=now_ms)
        try:
            self._journal.append(Entry(keeps=[PutKept(row)], urgent=False))
        except HostError as error:
            _log.warning("the use of a key could not be noted", key=key_id, problem=error.message)


class KeyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a new key."""

    name: str
    rights: tuple[Right, ...]
    expires_in_s: float = KEY_LIFE_S


class IssuedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A created key with its token, which is returned only here."""

    saved: Saved[ApiKey]
    token: str


API_KEY: Final = ResourceKind(kind="key", noun="key", listed_by="keys", limit=KEYS_OF_WORKSPACE, full=Overloaded)


class Keys(Repository[ApiKey]):
    """The API keys. The host stores only the digest of a token."""

    def __init__(
        self, *, changes: SavedChanges, changing: asyncio.Lock, clock: Clock, callers: CallerRegistry, uses: KeyUses
    ) -> None:
        super().__init__(API_KEY, changes, lambda body, _: read(ApiKey, body, "key"), ApiKey.to_wire, changing)
        self._clock = clock
        self._callers = callers
        self._uses = uses

    def has_expired(self, key: ApiKey) -> bool:
        return key.expires_ms <= self._clock.now_ms()

    # --- making ---

    async def make(self, wanted: KeyRequest, caller: Caller) -> IssuedKey:
        """Create a key of the caller."""
        self._check(wanted, caller)
        key_id = secrets.token_hex(8)
        token = f"blk_{key_id}_{secrets.token_hex(32)}"
        now_ms, own = self._clock.now_ms(), self._own(caller)
        ends_ms = now_ms + round(wanted.expires_in_s * 1000)
        key = ApiKey(
            key_id=key_id,
            name=wanted.name,
            rights=tuple(right for right in RIGHTS if right in wanted.rights),
            sha256=digest_of(token),
            user_id=caller.user_id,
            made_by=caller.name,
            created_ms=now_ms,
            expires_ms=ends_ms if own is None else min(ends_ms, own.expires_ms),
        )

        def new(before: Saved[ApiKey] | None) -> ApiKey:
            if before is not None:
                raise Conflict("a key with this id exists", reason="key_id_taken", hint="repeat the request")
            return key

        issued: JsonObject = {
            "kind": "key",
            "id": key_id,
            "rights": [*key.rights],
            "expires_ms": key.expires_ms,
            "by": caller.name,
        }
        saved = await self._save(caller.workspace, key_id, new, by=caller.name, beside=[("token.issued", issued)])
        return IssuedKey(saved=saved, token=token)

    def _own(self, caller: Caller) -> ApiKey | None:
        """The caller's own key, if the caller is a key."""
        return self.key(caller.workspace, caller.name.removeprefix("key:")) if caller.kind == "key" else None

    @staticmethod
    def _check(wanted: KeyRequest, caller: Caller) -> None:
        if beyond := sorted(set(wanted.rights) - caller.rights):
            raise Forbidden(
                f"a key cannot have rights that you lack: {', '.join(beyond)}",
                reason="key_beyond_caller",
                hint="leave these rights out, or ask a person who has them",
                right=beyond[0],
                rights=", ".join(beyond),
            )
        if not 0 < wanted.expires_in_s <= KEY_LIFE_MAX_S:
            raise InvalidRequest(
                f"expires_in_s is not between 0 and {KEY_LIFE_MAX_S:g}",
                reason="key_life",
                hint="choose a shorter time, and make a new key then",
                field="expires_in_s",
                most=KEY_LIFE_MAX_S,
            )

    # --- ending and use ---

    def key(self, workspace: str, key_id: str) -> ApiKey | None:
        found = self.find(workspace, key_id)
        return None if found is None else found.value

    def of_user(self, workspace: str, user_id: str) -> list[Saved[ApiKey]]:
        """The keys of a user."""
        return [saved for saved in self.all(workspace) if saved.value.user_id == user_id]

    async def delete_as(
        self, caller: Caller, key_id: str, *, edited: int | None = None, along: Callable[[], JointChange] = JointChange
    ) -> None:
        """Delete a key, and the rows that `along` returns; it is invalid from the commit on. A caller cannot delete a
        key with more rights than its own."""

        def check(before: Saved[ApiKey]) -> None:
            if not caller.rights.issuperset(before.value.rights):
                raise Forbidden(
                    f"key {key_id} has rights that you lack",
                    reason="key_above_caller",
                    hint="ask an admin to delete it",
                    key=key_id,
                )

        use = DropKept(KEY_USE, caller.workspace, key_id)
        await self._delete(caller.workspace, key_id, check, by=caller.name, edited=edited, keeps=[use], along=along)

    def leaving(self, workspace: str, user_id: str, by: str) -> JointChange:
        """Delete the keys of a deleted user: the next user with this id is another person."""

        uses = [DropKept(KEY_USE, workspace, saved.id) for saved in self.of_user(workspace, user_id)]
        return self._leaving(workspace, lambda saved: saved.value.user_id == user_id, by) + JointChange(keeps=uses)

    def changed(self, before: Saved[ApiKey] | None, after: Saved[ApiKey] | None) -> None:
        if before is not None:
            self._callers.drop(before.value.sha256)
        if after is None:
            if before is not None:
                self._uses.forget(before.workspace, before.id)
            return
        key = after.value
        self._callers.put(
            Credential(
                digest=key.sha256,
                workspace=after.workspace,
                kind="key",
                id=after.id,
                user_id=key.user_id,
                rights=frozenset(key.rights),
                expires_ms=key.expires_ms,
            )
        )

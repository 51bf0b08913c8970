"""Sessions: what a password is exchanged for. Only the digest of a session's token is kept, beside the log."""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec

from bollard.host.agents.rates import Rates
from bollard.host.clock import Clock
from bollard.host.errors import HostError, Overloaded, Unauthenticated
from bollard.host.exposure import client_network
from bollard.host.identity.tokens import CallerRegistry, Credential
from bollard.host.identity.users import Users
from bollard.host.limits import (
    LOGINS_OF_ADDRESS_PER_MINUTE,
    LOGINS_OF_USER_PER_MINUTE,
    LOGINS_PER_MINUTE,
    SESSION_S,
    SESSIONS_OF_USER,
)
from bollard.host.log.entries import CommitResult, Committed, Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.store.rows import DropKept, KeptChange, KeptRow, PutKept
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

SESSION: Final = "session"
Fingerprint = Callable[[str, str], Awaitable[str]]
"""Of a value of a workspace: the same for the same value, and the value cannot be had from it."""
_ELSEWHERE: Final = "default"
"""Where it is noted that somebody tried a workspace that is not there."""


def digest_of(token: str) -> str:
    """What is kept of a token, and what it is found by."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class _Body(msgspec.Struct, frozen=True):
    user_id: str
    created_ms: int


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session that began just now: the only time that its token is known."""

    token: str
    workspace: str
    user_id: str
    expires_ms: int


class Sessions:
    """One per host."""

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        users: Users,
        callers: CallerRegistry,
        is_open: Callable[[str], bool],
        changing: asyncio.Lock,
        fingerprint: Fingerprint | None = None,
    ) -> None:
        """`changing` is held by whoever changes a user; `fingerprint` is of what must not be written down."""
        self._fingerprint = fingerprint
        self._noting: set[asyncio.Task[None]] = set()
        self._changing = changing
        self._journal = journal
        self._clock = clock
        self._users = users
        self._callers = callers
        self._is_open = is_open
        self._of_user: dict[tuple[str, str], dict[str, int]] = {}
        """Digests by user, with when each began: the oldest first."""
        self._by_user_and_address: Rates[tuple[str, str, str]] = Rates(LOGINS_PER_MINUTE, LOGINS_PER_MINUTE)
        self._by_address: Rates[str] = Rates(LOGINS_OF_ADDRESS_PER_MINUTE, LOGINS_OF_ADDRESS_PER_MINUTE)
        self._by_user: Rates[tuple[str, str]] = Rates(LOGINS_OF_USER_PER_MINUTE, LOGINS_OF_USER_PER_MINUTE)

    async def load(self, store: Store) -> None:
        found = await asyncio.to_thread(store.all_kept, SESSION, None, self._clock.now_ms())
        bodies = [(row, msgspec.json.decode(row.body, type=_Body)) for row in found]
        for row, body in sorted(bodies, key=lambda each: each[1].created_ms):
            self._take(row.workspace, body.user_id, row.id, body.created_ms, row.expires_ms)

    async def begin(self, workspace: str, user_id: str, password: str, address: str) -> Session:
        """Raises `Unauthenticated`, the same for every reason, or `Overloaded` for who tries too often."""
        self.throttle(workspace, user_id, address)
        known, stored = self._is_open(workspace), self._users.hash_of(workspace, user_id)
        right = await self._users.verify(stored, password) and known
        if right:
            # Behind every change of the user: a session must not slip in between a new password and what it ends.
            async with self._changing:
                if self._is_open(workspace) and self._users.hash_of(workspace, user_id) == stored:
                    return await self._begin(workspace, user_id, address)
        self._note_failure(workspace if known else _ELSEWHERE, user_id, address)
        raise wrong()

    async def _begin(self, workspace: str, user_id: str, address: str) -> Session:
        now_ms = self._clock.now_ms()
        token = f"bls_{secrets.token_urlsafe(32)}"
        digest, expires_ms = digest_of(token), now_ms + round(SESSION_S * 1000)
        body = msgspec.json.encode(_Body(user_id, now_ms))
        row = KeptRow(kind=SESSION, workspace=workspace, id=digest, body=body, expires_ms=expires_ms, updated_ms=now_ms)
        held = list(self._of_user.get((workspace, user_id), ()))
        dropped = held[: max(0, len(held) - SESSIONS_OF_USER + 1)]

        def told(outcome: CommitResult | HostError) -> None:
            if isinstance(outcome, Committed):
                self._forget(workspace, user_id, dropped)
                self._take(workspace, user_id, digest, now_ms, expires_ms)

        data = encode_data({"user_id": user_id, "address": address, "expires_ms": expires_ms})
        record = NewRecord(workspace=workspace, type="login.succeeded", data=data, created_ms=now_ms)
        keeps: list[KeptChange] = [PutKept(row), *(DropKept(SESSION, workspace, each) for each in dropped)]
        await self._journal.commit_through(Entry(records=[record], keeps=keeps, size=len(data)), told)
        return Session(token=token, workspace=workspace, user_id=user_id, expires_ms=expires_ms)

    async def end(self, workspace: str, user_id: str, digest: str) -> None:
        """Log out. The token opens nothing from here on, whatever the disk says."""
        self._forget(workspace, user_id, [digest])
        now_ms = self._clock.now_ms()
        data = encode_data({"user_id": user_id})
        record = NewRecord(workspace=workspace, type="login.ended", data=data, created_ms=now_ms)
        await self._journal.commit(
            Entry(records=[record], keeps=[DropKept(SESSION, workspace, digest)], size=len(data))
        )

    def endings(self, workspace: str, user_id: str, *, but: str | None = None) -> list[KeptChange]:
        """What a commit must drop so that every session of a user ends with it, except one."""
        digests = self._of_user.get((workspace, user_id), {})
        return [DropKept(SESSION, workspace, digest) for digest in digests if digest != but]

    def forget(self, workspace: str, user_id: str, *, but: str | None = None) -> None:
        """That commit is on disk."""
        digests = self._of_user.get((workspace, user_id), {})
        self._forget(workspace, user_id, [digest for digest in digests if digest != but])

    def _take(self, workspace: str, user_id: str, digest: str, created_ms: int, expires_ms: int | None) -> None:
        self._of_user.setdefault((workspace, user_id), {})[digest] = created_ms
        self._callers.put(
            Credential(
                digest=digest,
                workspace=workspace,
                kind="session",
                id=digest[:16],
                user_id=user_id,
                rights=None,
                expires_ms=expires_ms,
            )
        )

    def _forget(self, workspace: str, user_id: str, digests: list[str]) -> None:
        held = self._of_user.get((workspace, user_id), {})
        for digest in digests:
            held.pop(digest, None)
            self._callers.drop(digest)
        if not held:
            self._of_user.pop((workspace, user_id), None)

    def throttle(self, workspace: str, user_id: str, address: str) -> None:
        """One try to know a password; raises `Overloaded` for who has none left."""
        now, client = self._clock.monotonic(), client_network(address)
        # What one address tried too often takes nothing from the user: they could not log in from elsewhere.
        wait_s = self._by_user_and_address.take((workspace, user_id, client), now)
        wait_s = self._by_address.take(client, now) if wait_s is None else wait_s
        wait_s = self._by_user.take((workspace, user_id), now) if wait_s is None else wait_s
        if wait_s is not None:
            raise Overloaded(
                "there were too many tries to log in", hint="wait, then try again", retry_after_s=round(wait_s, 3)
            )

    def _note_failure(self, workspace: str, user_id: str, address: str) -> None:
        """Not waited for: an answer must not tell by its time whether there is such a user. A name that is nobody's is
        not written down: people type passwords into the wrong field. Its fingerprint says when it is the same again."""
        if self._users.find(workspace, user_id) is not None:
            self._write_failure(workspace, {"user_id": user_id, "address": address})
        elif self._fingerprint is None:
            self._write_failure(workspace, {"user_id": None, "address": address})
        else:
            task = asyncio.create_task(self._note_stranger(self._fingerprint, workspace, user_id, address))
            self._noting.add(task)
            task.add_done_callback(self._noting.discard)

    async def _note_stranger(self, fingerprint: Fingerprint, workspace: str, name: str, address: str) -> None:
        data: JsonObject = {"user_id": None, "address": address}
        with suppress(HostError):  # without the key there is nothing to compare
            data["name_fingerprint"] = await fingerprint(workspace, name)
        self._write_failure(workspace, data)

    def _write_failure(self, workspace: str, data: JsonObject) -> None:
        body = encode_data(data)
        record = NewRecord(workspace=workspace, type="login.failed", data=body, created_ms=self._clock.now_ms())
        with suppress(HostError):  # the journal is behind; whoever tries is refused all the same
            self._journal.append(Entry(records=[record], size=len(body), urgent=False))


def wrong() -> Unauthenticated:
    """The same for a wrong password, an unknown user, one without a password, and an unknown workspace."""
    return Unauthenticated("the workspace, the user or the password is wrong", hint="check all three and try again")

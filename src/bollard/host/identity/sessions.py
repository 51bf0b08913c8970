"""Sessions: tokens that a login with a password returns. The host stores only their digests."""

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
"""A keyed hash of a value of a workspace."""
_FALLBACK_WORKSPACE: Final = "default"
"""Where failed logins to unknown workspaces are recorded."""


def digest_of(token: str) -> str:
    """The digest by which a token is stored and found."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class _Body(msgspec.Struct, frozen=True):
    user_id: str
    created_ms: int


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A new session, with its token, which is not stored."""

    token: str
    workspace: str
    user_id: str
    expires_ms: int


class Sessions:
    """Begins, ends and loads sessions, and limits login attempts."""

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
        """`changing` is the lock for changes of users. `fingerprint` hashes unknown user names for the log."""
        self._fingerprint = fingerprint
        self._failure_tasks: set[asyncio.Task[None]] = set()
        self._changing = changing
        self._journal = journal
        self._clock = clock
        self._users = users
        self._callers = callers
        self._is_open = is_open
        self._of_user: dict[tuple[str, str], dict[str, int]] = {}
        """Digests with start times by user, the oldest first."""
        self._by_user_and_address: Rates[tuple[str, str, str]] = Rates(LOGINS_PER_MINUTE, LOGINS_PER_MINUTE)
        self._by_address: Rates[str] = Rates(LOGINS_OF_ADDRESS_PER_MINUTE, LOGINS_OF_ADDRESS_PER_MINUTE)
        self._by_user: Rates[tuple[str, str]] = Rates(LOGINS_OF_USER_PER_MINUTE, LOGINS_OF_USER_PER_MINUTE)

    async def load(self, store: Store) -> None:
        rows = await asyncio.to_thread(store.all_kept, SESSION, None, self._clock.now_ms())
        bodies = [(row, msgspec.json.decode(row.body, type=_Body)) for row in rows]
        for row, body in sorted(bodies, key=lambda each: each[1].created_ms):
            self._add(row.workspace, body.user_id, row.id, body.created_ms, row.expires_ms)

    async def begin(self, workspace: str, user_id: str, password: str, address: str) -> Session:
        """Log in. Raises `Unauthenticated`, the same for every cause, or `Overloaded` after too many attempts."""
        self.throttle(workspace, user_id, address)
        exists, stored = self._is_open(workspace), self._users.hash_of(workspace, user_id)
        matches = await self._users.verify(stored, password) and exists
        if matches:
            # Under the lock: no session may begin between a new password and the end of the old sessions.
            async with self._changing:
                if self._is_open(workspace) and self._users.hash_of(workspace, user_id) == stored:
                    return await self._begin(workspace, user_id, address)
        self._record_failure(workspace if exists else _FALLBACK_WORKSPACE, user_id, address)
        raise login_failed()

    async def _begin(self, workspace: str, user_id: str, address: str) -> Session:
        now_ms = self._clock.now_ms()
        token = f"bls_{secrets.token_urlsafe(32)}"
        digest, expires_ms = digest_of(token), now_ms + round(SESSION_S * 1000)
        body = msgspec.json.encode(_Body(user_id, now_ms))
        row = KeptRow(kind=SESSION, workspace=workspace, id=digest, body=body, expires_ms=expires_ms, updated_ms=now_ms)
        digests = list(self._of_user.get((workspace, user_id), ()))
        dropped = digests[: max(0, len(digests) - SESSIONS_OF_USER + 1)]

        def on_commit(outcome: CommitResult | HostError) -> None:
            if isinstance(outcome, Committed):
                self._forget(workspace, user_id, dropped)
                self._add(workspace, user_id, digest, now_ms, expires_ms)

        data = encode_data({"user_id": user_id, "address": address, "expires_ms": expires_ms})
        record = NewRecord(workspace=workspace, type="login.succeeded", data=data, created_ms=now_ms)
        keeps: list[KeptChange] = [PutKept(row), *(DropKept(SESSION, workspace, each) for each in dropped)]
        await self._journal.commit_through(Entry(records=[record], keeps=keeps, size=len(data)), on_commit)
        return Session(token=token, workspace=workspace, user_id=user_id, expires_ms=expires_ms)

    async def end(self, workspace: str, user_id: str, digest: str) -> None:
        """Log out. The token is invalid at once, even if the commit fails."""
        self._forget(workspace, user_id, [digest])
        now_ms = self._clock.now_ms()
        data = encode_data({"user_id": user_id})
        record = NewRecord(workspace=workspace, type="login.ended", data=data, created_ms=now_ms)
        await self._journal.commit(
            Entry(records=[record], keeps=[DropKept(SESSION, workspace, digest)], size=len(data))
        )

    def endings(self, workspace: str, user_id: str, *, but: str | None = None) -> list[KeptChange]:
        """The changes that end every session of a user in a commit, except `but`."""
        digests = self._of_user.get((workspace, user_id), {})
        return [DropKept(SESSION, workspace, digest) for digest in digests if digest != but]

    def forget(self, workspace: str, user_id: str, *, but: str | None = None) -> None:
        """Called when that commit is durable: end the sessions in memory."""
        digests = self._of_user.get((workspace, user_id), {})
        self._forget(workspace, user_id, [digest for digest in digests if digest != but])

    def _add(self, workspace: str, user_id: str, digest: str, created_ms: int, expires_ms: int | None) -> None:
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
        sessions = self._of_user.get((workspace, user_id), {})
        for digest in digests:
            sessions.pop(digest, None)
            self._callers.drop(digest)
        if not sessions:
            self._of_user.pop((workspace, user_id), None)

    def throttle(self, workspace: str, user_id: str, address: str) -> None:
        """Count one login attempt; raises `Overloaded` after too many."""
        now, client = self._clock.monotonic(), client_network(address)
        # Attempts above the limit of one address do not count for the user, who must be able to log in from elsewhere.
        wait_s = self._by_user_and_address.take((workspace, user_id, client), now)
        wait_s = self._by_address.take(client, now) if wait_s is None else wait_s
        wait_s = self._by_user.take((workspace, user_id), now) if wait_s is None else wait_s
        if wait_s is not None:
            raise Overloaded(
                "there were too many tries to log in",
                reason="login_attempts",
                hint="wait, then try again",
                retry_after_s=round(wait_s, 3),
            )

    def _record_failure(self, workspace: str, user_id: str, address: str) -> None:
        """Record a failed login without waiting: the response time must not reveal whether the user exists. An unknown
        name is recorded as a fingerprint, because people type passwords into the wrong field."""
        if self._users.find(workspace, user_id) is not None:
            self._write_failure(workspace, {"user_id": user_id, "address": address})
        elif self._fingerprint is None:
            self._write_failure(workspace, {"user_id": None, "address": address})
        else:
            task = asyncio.create_task(self._record_unknown_user(self._fingerprint, workspace, user_id, address))
            self._failure_tasks.add(task)
            task.add_done_callback(self._failure_tasks.discard)

    async def _record_unknown_user(self, fingerprint: Fingerprint, workspace: str, name: str, address: str) -> None:
        data: JsonObject = {"user_id": None, "address": address}
        with suppress(HostError):  # the key is unavailable
            data["name_fingerprint"] = await fingerprint(workspace, name)
        self._write_failure(workspace, data)

    def _write_failure(self, workspace: str, data: JsonObject) -> None:
        body = encode_data(data)
        record = NewRecord(workspace=workspace, type="login.failed", data=body, created_ms=self._clock.now_ms())
        with suppress(HostError):  # the journal is overloaded; the login fails anyway
            self._journal.append(Entry(records=[record], size=len(body), urgent=False))


def login_failed() -> Unauthenticated:
    """The same error for a wrong password, an unknown user, a user without a password and an unknown workspace."""
    return Unauthenticated(
        "the workspace, the user or the password is wrong", reason="login", hint="check all three and try again"
    )

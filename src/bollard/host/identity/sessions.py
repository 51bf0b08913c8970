"""Sessions: tokens that a login with a password or a ticket returns. The host stores only their digests.

The owner of a session is a user, an API key or the installation. A session never has more rights than its owner has
now, and it ends with its owner.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import HostError, NotFound, Unauthenticated
from bollard.host.identity.caller import ADMIN_TOKEN, DEFAULT_WORKSPACE, RIGHTS, Caller
from bollard.host.identity.entities import ApiKey
from bollard.host.identity.login_attempts import LoginAttempts
from bollard.host.identity.tokens import CallerRegistry, Credential
from bollard.host.identity.users import Users
from bollard.host.limits import SESSION_S, SESSIONS_OF_USER
from bollard.host.log.entries import CommitResult, Committed, Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.log.saved_resources import JointChange
from bollard.host.store.rows import DropKept, KeptChange, KeptRow, PutKept
from bollard.host.store.store import Store

SESSION: Final = "session"
_ID_CHARACTERS: Final = 16
"""Of the digest of a token, as the id of its session."""


def digest_of(token: str) -> str:
    """The digest by which a token is stored and found."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def user_name(user_id: str) -> str:
    return f"user:{user_id}"


def key_name(key_id: str) -> str:
    return f"key:{key_id}"


class SessionOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a session: a user, a key, or neither, which is the installation."""

    workspace: str = DEFAULT_WORKSPACE
    user_id: str | None = None
    key_id: str | None = None

    @property
    def name(self) -> str:
        """As the log names it."""
        if self.key_id is not None:
            return key_name(self.key_id)
        return ADMIN_TOKEN if self.user_id is None else user_name(self.user_id)


def owner_of(caller: Caller) -> SessionOwner:
    """The owner of the sessions of a caller. The holder of the token of a run has none: asking for them is a bug."""
    match caller.kind:
        case "installation":
            return SessionOwner()
        case "key":
            return SessionOwner(workspace=caller.workspace, key_id=caller.name.removeprefix("key:"))
        case "session":
            return SessionOwner(workspace=caller.workspace, user_id=caller.user_id)
        case "run":
            raise ValueError("a run has no sessions")


class _Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    created_ms: int
    user_id: str | None = None
    key_id: str | None = None
    admin_mark: str | None = None
    """Of the admin token that owns the session: another admin token does not inherit it."""
    address: str = ""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session, by the digest of its token."""

    digest: str
    owner: SessionOwner
    created_ms: int
    expires_ms: int
    address: str

    @property
    def id(self) -> str:
        return self.digest[:_ID_CHARACTERS]


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """A new session, with its token, which is not stored."""

    token: str
    session: Session
    caller: Caller


class Sessions:
    """Begins, ends, lists and loads sessions."""

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        users: Users,
        key_of: Callable[[str, str], ApiKey | None],
        callers: CallerRegistry,
        attempts: LoginAttempts,
        is_open: Callable[[str], bool],
        changing: asyncio.Lock,
        admin_mark: str,
    ) -> None:
        """`changing` is the lock for changes of users and keys. `admin_mark` stands for the present admin token."""
        self._journal = journal
        self._clock = clock
        self._users = users
        self._key_of = key_of
        self._callers = callers
        self._attempts = attempts
        self._is_open = is_open
        self._changing = changing
        self._admin_mark = admin_mark
        self._of_owner: dict[tuple[str, str], dict[str, Session]] = {}
        """By digest for each owner, the oldest first."""
        self._all: dict[str, Session] = {}

    async def load(self, store: Store) -> None:
        rows = await asyncio.to_thread(store.all_kept, SESSION, None, self._clock.now_ms())
        bodies = [(row, msgspec.json.decode(row.body, type=_Body)) for row in rows]
        for row, body in sorted(bodies, key=lambda each: each[1].created_ms):
            owner = SessionOwner(workspace=row.workspace, user_id=body.user_id, key_id=body.key_id)
            if owner.name != ADMIN_TOKEN or body.admin_mark == self._admin_mark:
                session = Session(
                    digest=row.id,
                    owner=owner,
                    created_ms=body.created_ms,
                    expires_ms=row.expires_ms or 0,
                    address=body.address,
                )
                self._add(session)

    async def begin(self, workspace: str, user_id: str, password: str, address: str) -> NewSession:
        """Log in. Raises `Unauthenticated`, the same for every cause, or `Overloaded` after too many attempts."""
        self._attempts.throttle(workspace, user_id, address)
        exists, stored = self._is_open(workspace), self._users.hash_of(workspace, user_id)
        matches = await self._users.verify(stored, password) and exists
        if matches:
            # Under the lock: no session may begin between a new password and the end of the old sessions.
            async with self._changing:
                if self._is_open(workspace) and self._users.hash_of(workspace, user_id) == stored:
                    return await self._begin(SessionOwner(workspace=workspace, user_id=user_id), address)
        self._attempts.record_failure(workspace, user_id, address)
        raise login_failed()

    async def begin_for(self, owner: SessionOwner, credential: str | None, address: str) -> NewSession | None:
        """Begin a session for the holder of this credential, the digest of a token; `None` if the credential is not
        valid any more. The session ends when the credential expires, at the latest."""
        async with self._changing:
            now_ms = self._clock.now_ms()
            if credential is not None and self._callers.find(credential, now_ms) is None:
                return None
            latest = None if credential is None else self._callers.expiry_of(credential)
            return await self._begin(owner, address, latest)

    async def _begin(self, owner: SessionOwner, address: str, latest_ms: int | None = None) -> NewSession:
        now_ms = self._clock.now_ms()
        token = f"bls_{secrets.token_urlsafe(32)}"
        expires_ms = now_ms + round(SESSION_S * 1000)
        session = Session(
            digest=digest_of(token),
            owner=owner,
            created_ms=now_ms,
            expires_ms=expires_ms if latest_ms is None else min(expires_ms, latest_ms),
            address=address,
        )
        digests = list(self._of_owner.get((owner.workspace, owner.name), ()))
        dropped = digests[: max(0, len(digests) - SESSIONS_OF_USER + 1)]

        def on_commit(outcome: CommitResult | HostError) -> None:
            if isinstance(outcome, Committed):
                self._forget(dropped)
                self._add(session)

        data = encode_data(
            {"user_id": owner.user_id, "name": owner.name, "address": address, "expires_ms": session.expires_ms}
        )
        record = NewRecord(workspace=owner.workspace, type="login.succeeded", data=data, created_ms=now_ms)
        keeps: list[KeptChange] = [
            PutKept(self._row(session)),
            *(DropKept(SESSION, owner.workspace, each) for each in dropped),
        ]
        await self._journal.commit_through(Entry(records=[record], keeps=keeps, size=len(data)), on_commit)
        caller = self._callers.find(session.digest, now_ms)
        if caller is None:  # the owner has gone since, or another login has ended this session
            raise login_failed()
        return NewSession(token=token, session=session, caller=caller)

    def _row(self, session: Session) -> KeptRow:
        owner = session.owner
        body = _Body(
            created_ms=session.created_ms,
            user_id=owner.user_id,
            key_id=owner.key_id,
            admin_mark=self._admin_mark if owner.name == ADMIN_TOKEN else None,
            address=session.address,
        )
        return KeptRow(
            kind=SESSION,
            workspace=owner.workspace,
            id=session.digest,
            body=msgspec.json.encode(body),
            expires_ms=session.expires_ms,
            updated_ms=session.created_ms,
        )

    # --- listing and ending ---

    def find(self, digest: str) -> Session | None:
        """The session with this digest."""
        return self._all.get(digest)

    def of(self, owner: SessionOwner) -> list[Session]:
        """The sessions of an owner that have not expired."""
        now_ms = self._clock.now_ms()
        sessions = self._of_owner.get((owner.workspace, owner.name), {}).values()
        return [each for each in sessions if each.expires_ms > now_ms]

    def get(self, owner: SessionOwner, session_id: str) -> Session:
        """Raises `NotFound`."""
        found = next((each for each in self.of(owner) if each.id == session_id), None)
        if found is None:
            raise NotFound(
                "there is no such session", reason="no_session", hint="`GET /api/v1/sessions` lists your sessions"
            )
        return found

    async def end(self, session: Session) -> None:
        """Log out. The token is invalid at once, even if the commit fails."""
        self._forget([session.digest])
        owner, now_ms = session.owner, self._clock.now_ms()
        data = encode_data({"user_id": owner.user_id, "name": owner.name})
        record = NewRecord(workspace=owner.workspace, type="login.ended", data=data, created_ms=now_ms)
        dropped = DropKept(SESSION, owner.workspace, session.digest)
        await self._journal.commit(Entry(records=[record], keeps=[dropped], size=len(data)))

    def leaving(self, workspace: str, *names: str, but: str | None = None) -> JointChange:
        """End every session of these owners in a commit, except the one with the digest `but`."""
        owned = [digest for name in names for digest in self._of_owner.get((workspace, name), ()) if digest != but]
        return JointChange(
            keeps=[DropKept(SESSION, workspace, digest) for digest in owned], settled=[lambda: self._forget(owned)]
        )

    def _add(self, session: Session) -> None:
        credential = self._credential(session)
        if credential is None:
            return
        self._all[session.digest] = session
        owner = session.owner
        self._of_owner.setdefault((owner.workspace, owner.name), {})[session.digest] = session
        self._callers.put(credential)

    def _credential(self, session: Session) -> Credential | None:
        owner = session.owner
        credential = Credential(
            digest=session.digest,
            workspace=owner.workspace,
            kind="session",
            id=session.id,
            user_id=owner.user_id,
            rights=None,
            expires_ms=session.expires_ms,
            session=session.id,
        )
        if owner.key_id is not None:
            key = self._key_of(owner.workspace, owner.key_id)
            return key and msgspec.structs.replace(
                credential, kind="key", id=key.key_id, user_id=key.user_id, rights=frozenset(key.rights)
            )
        if owner.user_id is None:
            return msgspec.structs.replace(credential, kind="installation", rights=frozenset(RIGHTS))
        return credential

    def _forget(self, digests: list[str]) -> None:
        for digest in digests:
            self._callers.drop(digest)
            session = self._all.pop(digest, None)
            if session is None:
                continue
            owner = (session.owner.workspace, session.owner.name)
            sessions = self._of_owner[owner]
            del sessions[digest]
            if not sessions:
                del self._of_owner[owner]


def login_failed() -> Unauthenticated:
    """The same error for a wrong password, an unknown user, a user without a password and an unknown workspace."""
    return Unauthenticated(
        "the workspace, the user or the password is wrong", reason="login", hint="check all three and try again"
    )

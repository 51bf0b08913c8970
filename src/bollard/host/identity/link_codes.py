"""One-time codes that link an actor of a channel to a user, in either direction.

A code proves that one person has both accounts: the actor gets it in a private chat and the user redeems it, or the
other way round. The host stores only the digest of a code. Only a session may use a code for its own user: a key, whose
rights may be fewer, must not lend the rights of its user to an actor.
"""

import asyncio
import secrets
from collections.abc import Callable
from hashlib import sha256
from typing import Final

import msgspec

from bollard.host.agents.rates import Rates
from bollard.host.clock import Clock
from bollard.host.errors import Forbidden, InvalidRequest, Overloaded
from bollard.host.identity.caller import Caller
from bollard.host.identity.entities import ActorLink
from bollard.host.identity.users import ActorLinks
from bollard.host.limits import LINK_CODE_S, LINK_CODES_PER_MINUTE
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import Saved
from bollard.host.store.rows import DropKept, KeptRow, PutKept
from bollard.host.store.store import Store

_KIND: Final = "link_code"
_ALPHABET: Final = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
"""Characters that people do not confuse."""
_CHARACTERS: Final = 10


class _Half(msgspec.Struct, frozen=True, omit_defaults=True):
    """The side that got the code."""

    actor: str | None = None
    user_id: str | None = None


class LinkCodes:
    """Makes and redeems codes."""

    def __init__(self, journal: Journal, clock: Clock, links: ActorLinks) -> None:
        self._journal = journal
        self._clock = clock
        self._links = links
        self._rates: Rates[tuple[str, str]] = Rates(LINK_CODES_PER_MINUTE, LINK_CODES_PER_MINUTE)
        self._codes: dict[tuple[str, str], KeptRow] = {}
        """The rows of unused codes, by workspace and digest."""

    async def load(self, store: Store) -> None:
        for row in await asyncio.to_thread(store.all_kept, _KIND, None, self._clock.now_ms()):
            self._codes[row.workspace, row.id] = row

    async def for_actor(self, workspace: str, actor: str) -> str:
        """A code for an actor, which a user redeems. Raises `Overloaded`."""
        return await self._make(workspace, actor, _Half(actor=actor))

    async def for_user(self, caller: Caller, user_id: str | None) -> tuple[str, int]:
        """A code for a user, which an actor redeems, and its end. Raises `Forbidden`, `InvalidRequest`,
        `Overloaded`."""
        chosen = self._user_of(caller, user_id)
        code = await self._make(caller.workspace, caller.name, _Half(user_id=chosen))
        return code, self._clock.now_ms() + LINK_CODE_S * 1000

    async def redeem_as_user(self, caller: Caller, code: str, user_id: str | None) -> Saved[ActorLink]:
        """Link the actor of the code to the caller, or to another user that the caller may change. Raises
        `InvalidRequest` for a code that is wrong, used or expired."""
        chosen = self._user_of(caller, user_id)
        half = await self._take(caller.workspace, caller.name, code, lambda half: half.actor is not None)
        return await self._links.link(caller.workspace, half.actor or "", chosen, by=caller.name)

    async def redeem_as_actor(self, workspace: str, actor: str, code: str) -> str:
        """Link the actor to the user of the code; returns the user. Raises as `redeem_as_user` does."""
        half = await self._take(workspace, actor, code, lambda half: half.user_id is not None)
        user_id = half.user_id or ""
        await self._links.link(workspace, actor, user_id, by=f"user:{user_id}")
        return user_id

    def _user_of(self, caller: Caller, user_id: str | None) -> str:
        if caller.kind == "session" and caller.user_id is not None and user_id in (None, caller.user_id):
            return caller.user_id
        if user_id is None:
            raise InvalidRequest(
                "a code belongs to a user, and this token is not the session of one",
                reason="link_needs_user",
                hint="log in with `bollard login`, or name a user",
                field="user_id",
            )
        if not caller.may("users.write"):
            message, hint = "this needs the right users.write", "log in as the user"
            raise Forbidden(message, reason="missing_right", hint=hint, right="users.write")
        self._links.check_user(caller, user_id)
        return user_id

    async def _make(self, workspace: str, by: str, half: _Half) -> str:
        self._count(workspace, by)
        code = "".join(secrets.choice(_ALPHABET) for _ in range(_CHARACTERS))
        now_ms = self._clock.now_ms()
        row = KeptRow(
            kind=_KIND,
            workspace=workspace,
            id=_digest(code),
            body=msgspec.json.encode(half),
            expires_ms=now_ms + LINK_CODE_S * 1000,
            updated_ms=now_ms,
        )
        await self._journal.commit(Entry(keeps=[PutKept(row)]))
        self._codes = {key: each for key, each in self._codes.items() if (each.expires_ms or 0) > now_ms}
        self._codes[workspace, row.id] = row
        return code

    async def _take(self, workspace: str, by: str, code: str, fits: Callable[[_Half], bool]) -> _Half:
        """Use up a code."""
        self._count(workspace, by)
        digest = _digest(code)
        row = self._codes.get((workspace, digest))
        half = None if row is None else msgspec.json.decode(row.body, type=_Half)
        if row is None or half is None or not fits(half) or (row.expires_ms or 0) <= self._clock.now_ms():
            raise InvalidRequest(
                "the code is wrong, used or expired",
                reason="link_code",
                hint=f"a code is valid once, for {LINK_CODE_S // 60} minutes; get a new one",
                field="code",
                minutes=LINK_CODE_S // 60,
            )
        del self._codes[workspace, digest]  # before the commit, so that no second request finds it
        await self._journal.commit(Entry(keeps=[DropKept(_KIND, workspace, digest)]))
        return half

    def _count(self, workspace: str, by: str) -> None:
        wait_s = self._rates.take((workspace, by), self._clock.monotonic())
        if wait_s is not None:
            raise Overloaded(
                f"one sender may use {LINK_CODES_PER_MINUTE} codes a minute",
                reason="link_code_rate",
                hint="retry in a minute",
                limit=LINK_CODES_PER_MINUTE,
            )


def _digest(code: str) -> str:
    return sha256(code.strip().replace("-", "").upper().encode("utf-8", "replace")).hexdigest()

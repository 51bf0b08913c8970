"""Everything about who is who, put together: filled from the store at start, changed after each commit."""

import asyncio

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import InvalidRequest
from bollard.host.identity.caller import Caller
from bollard.host.identity.entities import User
from bollard.host.identity.keys import Keys, KeyUses
from bollard.host.identity.passwords import Passwords
from bollard.host.identity.sessions import Fingerprint, Sessions, digest_of, wrong
from bollard.host.identity.tokens import CallerRegistry
from bollard.host.identity.users import ActorLinks, Users
from bollard.host.identity.workspaces import Workspaces
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import JointChange, Saved, SavedChanges
from bollard.host.store.store import Store
from bollard.protocol import JsonObject


class IdentityDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """What the surface asks about people, programs and workspaces."""

    workspaces: Workspaces
    users: Users
    links: ActorLinks
    keys: Keys
    uses: KeyUses
    sessions: Sessions
    callers: CallerRegistry

    async def load(self, store: Store) -> None:
        """Workspaces first: what is in a closed one opens nothing."""
        await self.workspaces.load(store)
        await self.users.load(store)
        await self.links.load(store)
        await self.uses.load(store)
        await self.keys.load(store)
        await self.sessions.load(store)

    def find(self, token: str, now_ms: int) -> Caller | None:
        """Who holds a token."""
        return self.callers.find(digest_of(token), now_ms)

    async def save_user(
        self, body: JsonObject, caller: Caller, *, password: str | None = None, edited: int | None = None
    ) -> Saved[User]:
        """A new password, and `disabled`, end every session that the user has, in the same commit."""
        workspace, user_id = caller.workspace, str(body.get("user_id"))
        ends = password is not None or body.get("disabled") is True
        return await self.users.save(
            body,
            caller,
            password=password,
            edited=edited,
            keeps=(lambda: self.sessions.endings(workspace, user_id)) if ends else (),
            then=(lambda: self.sessions.forget(workspace, user_id)) if ends else (lambda: None),
        )

    async def change_password(
        self, caller: Caller, old: str, new: str, address: str, *, but: str | None = None
    ) -> None:
        """A user's own, who must know the old one. Their other sessions end; the one with the digest `but` stays."""
        user_id = caller.user_id
        user = None if user_id is None else self.users.user(caller.workspace, user_id)
        if user is None or user_id is None:
            raise InvalidRequest("this token is no user's", hint="log in as the user whose password it is")
        self.sessions.throttle(caller.workspace, user_id, address)
        stored = self.users.hash_of(caller.workspace, user_id)
        if not await self.users.verify(stored, old) or not await self.users.change_password(
            user_id,
            caller,
            stored,
            new,
            keeps=lambda: self.sessions.endings(caller.workspace, user_id, but=but),
            then=lambda: self.sessions.forget(caller.workspace, user_id, but=but),
        ):
            raise wrong()

    async def delete_user(self, user_id: str, caller: Caller, *, edited: int | None = None) -> None:
        """With every session, key and link: who gets the id next must not find what somebody else left."""
        workspace, by = caller.workspace, caller.name

        def along() -> JointChange:
            sessions = JointChange(
                keeps=self.sessions.endings(workspace, user_id),
                settled=[lambda: self.sessions.forget(workspace, user_id)],
            )
            keys, links = (part.leaving(workspace, user_id, by) for part in (self.keys, self.links))
            return sessions + keys + links

        await self.users.delete_as(caller, user_id, edited=edited, along=along)


def open_identity(
    *, journal: Journal, clock: Clock, passwords: Passwords | None = None, fingerprint: Fingerprint | None = None
) -> IdentityDirectory:
    """Built, and not filled yet."""
    changes, changing = SavedChanges(journal, clock), asyncio.Lock()
    workspaces = Workspaces(changes, changing)
    users = Users(changes, changing, passwords or Passwords(), clock)
    uses = KeyUses(journal)
    callers = CallerRegistry(user_of=users.user, is_open=workspaces.is_open, used=uses.note, now_ms=clock.now_ms)
    users.watch(callers.refresh_user)
    workspaces.watch(callers.refresh_workspace, callers.refresh_workspace)
    return IdentityDirectory(
        workspaces=workspaces,
        users=users,
        links=ActorLinks(changes, changing, users),
        keys=Keys(changes=changes, changing=changing, clock=clock, callers=callers, uses=uses),
        uses=uses,
        sessions=Sessions(
            journal=journal,
            clock=clock,
            users=users,
            callers=callers,
            is_open=workspaces.is_open,
            changing=changing,
            fingerprint=fingerprint,
        ),
        callers=callers,
    )

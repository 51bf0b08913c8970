"""The identity directory: workspaces, users, keys and sessions. Loaded from the store at start, updated after
commits."""

import asyncio

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import InvalidRequest
from bollard.host.identity.caller import Caller
from bollard.host.identity.entities import User
from bollard.host.identity.keys import Keys, KeyUses
from bollard.host.identity.link_codes import LinkCodes
from bollard.host.identity.login_attempts import Fingerprint, LoginAttempts
from bollard.host.identity.passwords import Passwords
from bollard.host.identity.sessions import Sessions, digest_of, key_name, login_failed, user_name
from bollard.host.identity.sign_in_tickets import SignInTickets
from bollard.host.identity.tokens import CallerRegistry
from bollard.host.identity.users import ActorLinks, Users
from bollard.host.identity.workspaces import Workspaces
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import JointChange, Saved, SavedChanges
from bollard.host.store.store import Store
from bollard.protocol import JsonObject


class IdentityDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """Users, keys, sessions and workspaces, as the API uses them."""

    workspaces: Workspaces
    users: Users
    links: ActorLinks
    codes: LinkCodes
    keys: Keys
    uses: KeyUses
    attempts: LoginAttempts
    sessions: Sessions
    tickets: SignInTickets
    callers: CallerRegistry

    async def load(self, store: Store) -> None:
        """Load everything, workspaces first: tokens of a closed workspace are invalid."""
        await self.workspaces.load(store)
        await self.users.load(store)
        await self.links.load(store)
        await self.codes.load(store)
        await self.uses.load(store)
        await self.keys.load(store)
        await self.sessions.load(store)

    def find(self, token: str, now_ms: int) -> Caller | None:
        """The caller of a token."""
        return self.callers.find(digest_of(token), now_ms)

    async def save_user(
        self, body: JsonObject, caller: Caller, *, password: str | None = None, edited: int | None = None
    ) -> Saved[User]:
        """Save a user. A new password and `disabled` end every session of the user in the same commit."""
        workspace, user_id = caller.workspace, str(body.get("user_id"))
        ends = password is not None or body.get("disabled") is True
        along = (lambda: self.sessions.leaving(workspace, user_name(user_id))) if ends else JointChange
        return await self.users.save(body, caller, password=password, edited=edited, along=along)

    async def change_password(
        self, caller: Caller, old: str, new: str, address: str, *, but: str | None = None
    ) -> None:
        """Change the caller's own password, with the old one. Other sessions end; the one with the digest `but`
        stays."""
        user_id = caller.user_id
        user = None if user_id is None else self.users.user(caller.workspace, user_id)
        if user is None or user_id is None:
            raise InvalidRequest(
                "this token belongs to no user", reason="not_a_user", hint="log in as the user whose password it is"
            )
        self.attempts.throttle(caller.workspace, user_id, address)
        stored = self.users.hash_of(caller.workspace, user_id)
        if not await self.users.verify(stored, old) or not await self.users.change_password(
            user_id,
            caller,
            stored,
            new,
            along=lambda: self.sessions.leaving(caller.workspace, user_name(user_id), but=but),
        ):
            raise login_failed()

    async def delete_user(self, user_id: str, caller: Caller, *, edited: int | None = None) -> None:
        """Delete a user with all sessions, keys and links, so that the next user of the id does not inherit them."""
        workspace, by = caller.workspace, caller.name

        def along() -> JointChange:
            owned = [key_name(saved.id) for saved in self.keys.of_user(workspace, user_id)]
            sessions = self.sessions.leaving(workspace, user_name(user_id), *owned)
            keys, links = (part.leaving(workspace, user_id, by) for part in (self.keys, self.links))
            return sessions + keys + links

        await self.users.delete_as(caller, user_id, edited=edited, along=along)

    async def delete_key(self, key_id: str, caller: Caller, *, edited: int | None = None) -> None:
        """Delete a key with its sessions."""
        await self.keys.delete_as(
            caller, key_id, edited=edited, along=lambda: self.sessions.leaving(caller.workspace, key_name(key_id))
        )


def open_identity(
    *,
    journal: Journal,
    clock: Clock,
    passwords: Passwords | None = None,
    fingerprint: Fingerprint | None = None,
    admin_mark: str = "",
) -> IdentityDirectory:
    """Build the directory; `load` fills it. `admin_mark` stands for the admin token that owns sessions."""
    changes, changing = SavedChanges(journal, clock), asyncio.Lock()
    workspaces = Workspaces(changes, changing)
    users = Users(changes, changing, passwords or Passwords(), clock)
    uses = KeyUses(journal)
    callers = CallerRegistry(user_of=users.user, is_open=workspaces.is_open, used=uses.note, now_ms=clock.now_ms)
    users.watch(callers.refresh_user)
    workspaces.watch(callers.refresh_workspace, callers.refresh_workspace)
    links = ActorLinks(changes, changing, users)
    keys = Keys(changes=changes, changing=changing, clock=clock, callers=callers, uses=uses)
    attempts = LoginAttempts(
        journal=journal, clock=clock, users=users, is_open=workspaces.is_open, fingerprint=fingerprint
    )
    sessions = Sessions(
        journal=journal,
        clock=clock,
        users=users,
        key_of=keys.key,
        callers=callers,
        attempts=attempts,
        is_open=workspaces.is_open,
        changing=changing,
        admin_mark=admin_mark,
    )
    return IdentityDirectory(
        workspaces=workspaces,
        users=users,
        links=links,
        codes=LinkCodes(journal, clock, links),
        keys=keys,
        uses=uses,
        attempts=attempts,
        sessions=sessions,
        tickets=SignInTickets(sessions, attempts, clock),
        callers=callers,
    )

"""The users of each workspace, and the actors of channels that are linked to them.

The hash of a password is kept beside the log, in the commit that saves its user. A change of the password, the role or
`disabled` applies to every token of the user at once.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from bollard.host.agents.names import own_names
from bollard.host.clock import Clock
from bollard.host.errors import Forbidden, InvalidRequest, Overloaded
from bollard.host.identity.caller import ROLES, Caller, rights_of
from bollard.host.identity.entities import ActorLink, User, link_id, read
from bollard.host.identity.passwords import Passwords, check_new_password
from bollard.host.limits import ACTORS_OF_WORKSPACE, USERS_OF_WORKSPACE
from bollard.host.log.saved_resources import JointChange, Repository, ResourceKind, Saved, SavedChanges
from bollard.host.scope import Actor
from bollard.host.store.rows import DropKept, KeptRow, PutKept
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

PASSWORD = "password"  # noqa: S105 -- the kind of a row beside the log
USER: Final = ResourceKind(kind="user", noun="user", listed_by="users", limit=USERS_OF_WORKSPACE, full=Overloaded)
ACTOR_LINK: Final = ResourceKind(
    kind="actor", noun="link", listed_by="users links", limit=ACTORS_OF_WORKSPACE, full=Overloaded
)
Changed = Callable[[str, str], None]
"""Called with the workspace and the id of a user that was saved or deleted."""


class Users(Repository[User]):
    """The saved users, and the hashes of their passwords."""

    def __init__(self, changes: SavedChanges, changing: asyncio.Lock, passwords: Passwords, clock: Clock) -> None:
        super().__init__(USER, changes, lambda body, _: read(User, body, "user"), User.to_wire, changing)
        self._passwords = passwords
        self._clock = clock
        self._watchers: list[Changed] = []
        self._hashes: dict[tuple[str, str], str] = {}

    def watch(self, changed: Changed) -> None:
        self._watchers.append(changed)

    async def load(self, store: Store) -> None:
        await super().load(store)
        for row in await asyncio.to_thread(store.all_kept, PASSWORD):
            self._hashes[row.workspace, row.id] = row.body.decode()

    def user(self, workspace: str, user_id: str) -> User | None:
        found = self.find(workspace, user_id)
        return None if found is None else found.value

    def has_password(self, workspace: str, user_id: str) -> bool:
        return (workspace, user_id) in self._hashes

    def hash_of(self, workspace: str, user_id: str) -> str | None:
        """The hash of the password of an enabled user."""
        user = self.user(workspace, user_id)
        return None if user is None or user.disabled else self._hashes.get((workspace, user_id))

    async def save(
        self,
        body: JsonObject,
        caller: Caller,
        *,
        password: str | None = None,
        edited: int | None = None,
        along: Callable[[], JointChange] = JointChange,
    ) -> Saved[User]:
        """Save a user, and the password if there is a new one. Raises `Forbidden` for a user with more rights than the
        caller, who could act as that user by setting the password."""
        wanted = read(User, body, "user")
        check_within(caller, wanted)
        hashed = None if password is None else await self._hashed(password, wanted.user_id)

        def make(before: Saved[User] | None) -> User:
            if before is not None:
                check_within(caller, before.value)
            return wanted

        return await self._write(wanted.user_id, make, caller, hashed, edited=edited, along=along)

    async def change_password(
        self, user_id: str, caller: Caller, old: str | None, new: str, *, along: Callable[[], JointChange]
    ) -> bool:
        """Change the password, if the present one still has the hash `old`. Returns whether it had. Other fields of the
        user stay."""
        hashed = await self._hashed(new, user_id)

        def make(before: Saved[User] | None) -> User:
            if before is None or old is None or self.hash_of(caller.workspace, user_id) != old:
                raise _Stale
            return before.value

        try:
            await self._write(user_id, make, caller, hashed, along=along)
        except _Stale:
            return False
        return True

    async def _hashed(self, password: str, user_id: str) -> str:
        check_new_password(password, user_id)
        return await self._passwords.hash(password)

    async def _write(
        self,
        user_id: str,
        make: Callable[[Saved[User] | None], User],
        caller: Caller,
        hashed: str | None,
        *,
        edited: int | None = None,
        along: Callable[[], JointChange],
    ) -> Saved[User]:
        workspace = caller.workspace
        kept = [] if hashed is None else [PutKept(self._kept(workspace, user_id, hashed))]

        def settled() -> None:
            if hashed is not None:
                self._hashes[workspace, user_id] = hashed

        return await self._save(
            workspace, user_id, make, by=caller.name, edited=edited, keeps=kept, along=lambda _: along(), then=settled
        )

    async def verify(self, stored: str | None, password: str) -> bool:
        """Whether the password has this hash. Takes the same time without a hash."""
        return await self._passwords.verify(stored, password)

    async def delete_as(
        self, caller: Caller, user_id: str, *, edited: int | None = None, along: Callable[[], JointChange] = JointChange
    ) -> None:
        """Delete a user with the password, and with the rows that `along` returns."""

        def check(before: Saved[User]) -> None:
            check_within(caller, before.value)

        workspace, password = caller.workspace, DropKept(PASSWORD, caller.workspace, user_id)
        await self._delete(workspace, user_id, check, by=caller.name, edited=edited, keeps=[password], along=along)

    def _kept(self, workspace: str, user_id: str, hashed: str) -> KeptRow:
        return KeptRow(
            kind=PASSWORD,
            workspace=workspace,
            id=user_id,
            body=hashed.encode(),
            expires_ms=None,
            updated_ms=self._clock.now_ms(),
        )

    def changed(self, before: Saved[User] | None, after: Saved[User] | None) -> None:
        there = after or before
        if there is None:
            return
        if after is None:
            self._hashes.pop((there.workspace, there.id), None)
        for changed in self._watchers:
            changed(there.workspace, there.id)


class _Stale(Exception):
    """The password was changed in the meantime."""


def check_within(caller: Caller, user: User) -> None:
    """Raise `Forbidden` for a user with more rights than the caller, who could act as that user."""
    if beyond := sorted(rights_of(user.role) - caller.rights):
        raise Forbidden(
            f"the role {user.role} has rights that you lack: {', '.join(beyond[:3])}",
            reason="role_beyond_caller",
            hint="choose a role with fewer rights, or ask a person who has them",
            right=beyond[0],
            role=user.role,
            rights=", ".join(beyond[:3]),
        )


def names_of_user(user: User) -> frozenset[str]:
    """`user:ann` and her roles: an admin is also a member."""
    roles = ROLES[: ROLES.index(user.role) + 1]
    return frozenset({f"user:{user.user_id}", "user:*", *(f"role:{role}" for role in roles)})


class ActorLinks(Repository[ActorLink]):
    """Which actors of channels are users: a rule for `user:ann` also applies to her account on a chat platform."""

    def __init__(self, changes: SavedChanges, changing: asyncio.Lock, users: Users) -> None:
        super().__init__(
            ACTOR_LINK, changes, lambda body, _: read(ActorLink, body, "actor"), ActorLink.to_wire, changing
        )
        self._users = users

    def user_of(self, workspace: str, actor: Actor | None) -> User | None:
        """The user of an actor: by a link, or because the actor is a user."""
        if actor is None or not actor.type or not actor.id or ":" in actor.type:
            return None
        if actor.type == "user" and (user := self._users.user(workspace, actor.id)) is not None:
            return None if user.disabled else user
        link = self.find(workspace, link_id(f"{actor.type}:{actor.id}"))
        user = None if link is None else self._users.user(workspace, link.value.user_id)
        return None if user is None or user.disabled else user

    def caller_of(self, workspace: str, actor: Actor | None) -> Caller | None:
        """The caller that an actor of a channel is: the user it is linked to, with the rights of the user's role."""
        if (user := self.user_of(workspace, actor)) is None:
            return None
        return Caller(
            workspace=workspace,
            kind="session",
            name=f"user:{user.user_id}",
            user_id=user.user_id,
            role=user.role,
            rights=rights_of(user.role),
        )

    def names(self, workspace: str, actor: Actor | None) -> frozenset[str]:
        """The names of an actor in rules: its own `type:id`, its user, and the roles of that user."""
        own = own_names(workspace, actor)
        user = self.user_of(workspace, actor) if own else None
        return own if user is None else own | names_of_user(user)

    async def save(self, body: JsonObject, caller: Caller) -> Saved[ActorLink]:
        """Link an actor to a user. An actor gets the rights of its user, so the user must not have more rights than the
        caller."""
        wanted, workspace = read(ActorLink, body, "actor"), caller.workspace
        if wanted.actor.startswith(("user:", "role:", "key:")):
            raise InvalidRequest(
                f"actor.actor: {wanted.actor.partition(':')[0]} is not an actor type of a channel",
                reason="actor_type_reserved",
                hint="link the actor of a channel, as its events name it",
                field="actor.actor",
                type=wanted.actor.partition(":")[0],
            )

        def make(_: Saved[ActorLink] | None) -> ActorLink:
            self.check_user(caller, wanted.user_id)
            return wanted

        return await self._save(workspace, link_id(wanted.actor), make, by=caller.name)

    def check_user(self, caller: Caller, user_id: str) -> None:
        """Raises `InvalidRequest` for an unknown user, and `Forbidden` for one with more rights than the caller."""
        check_within(caller, self._known(caller.workspace, user_id))

    async def link(self, workspace: str, actor: str, user_id: str, *, by: str) -> Saved[ActorLink]:
        """Link an actor to a user that both accounts have agreed to."""

        def make(_: Saved[ActorLink] | None) -> ActorLink:
            self._known(workspace, user_id)
            return read(ActorLink, {"actor": actor, "user_id": user_id}, "actor")

        return await self._save(workspace, link_id(actor), make, by=by)

    def _known(self, workspace: str, user_id: str) -> User:
        user = self._users.user(workspace, user_id)
        if user is None:
            raise InvalidRequest(
                f"actor.user_id: there is no user {user_id}",
                reason="link_unknown_user",
                hint="`bollard users` lists them",
                field="actor.user_id",
                user=user_id,
            )
        return user

    def leaving(self, workspace: str, user_id: str, by: str) -> JointChange:
        """Delete the links of a deleted user: the next user with this id is another person."""
        return self._leaving(workspace, lambda saved: saved.value.user_id == user_id, by)

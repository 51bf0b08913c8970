"""The users of each workspace.

A password's hash is kept beside the log, in the commit that saves its user. Whoever changes a password, a role or
`disabled` changes what every token of the user opens, at once.
"""

import asyncio
from collections.abc import Callable

from bollard.host.agents.names import own_names
from bollard.host.clock import Clock
from bollard.host.errors import Forbidden, InvalidRequest, NotFound, Overloaded
from bollard.host.identity.caller import ROLES, Caller, rights_of
from bollard.host.identity.entities import ActorLink, User, link_id, read
from bollard.host.identity.passwords import Passwords, check_new_password
from bollard.host.limits import ACTORS_OF_WORKSPACE, USERS_OF_WORKSPACE
from bollard.host.log.saved_resources import JointChange, Keeps, Saved, SavedChanges, SavedResources
from bollard.host.store.rows import DropKept, KeptChange, KeptRow, PutKept
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

PASSWORD = "password"  # noqa: S105 -- the kind of what is kept
Changed = Callable[[str, str], None]
"""Told of a user that came, changed or went, by workspace and id."""


class Users:
    """One per host."""

    def __init__(self, changes: SavedChanges, changing: asyncio.Lock, passwords: Passwords, clock: Clock) -> None:
        self._passwords = passwords
        self._clock = clock
        self._watchers: list[Changed] = []
        self._hashes: dict[tuple[str, str], str] = {}
        self._shelf: SavedResources[User] = SavedResources(
            "user",
            changes=changes,
            read=lambda body, _: read(User, body, "user"),
            write=User.to_wire,
            changing=changing,
            watch=self._changed,
        )

    def watch(self, changed: Changed) -> None:
        self._watchers.append(changed)

    async def load(self, store: Store) -> None:
        await self._shelf.load(store)
        for row in await asyncio.to_thread(store.all_kept, PASSWORD):
            self._hashes[row.workspace, row.id] = row.body.decode()

    def find(self, workspace: str, user_id: str) -> User | None:
        found = self._shelf.get(workspace, user_id)
        return None if found is None else found.thing

    def find_saved(self, workspace: str, user_id: str) -> Saved[User] | None:
        return self._shelf.get(workspace, user_id)

    def get(self, workspace: str, user_id: str) -> Saved[User]:
        """Raises `NotFound`."""
        found = self._shelf.get(workspace, user_id)
        if found is None:
            raise _no_user()
        return found

    def all(self, workspace: str) -> list[Saved[User]]:
        return self._shelf.all(workspace)

    def has_password(self, workspace: str, user_id: str) -> bool:
        return (workspace, user_id) in self._hashes

    def hash_of(self, workspace: str, user_id: str) -> str | None:
        """Of a user who may come in with a password."""
        user = self.find(workspace, user_id)
        return None if user is None or user.disabled else self._hashes.get((workspace, user_id))

    async def save(
        self,
        body: JsonObject,
        caller: Caller,
        *,
        password: str | None = None,
        edited: int | None = None,
        keeps: Keeps = (),
        then: Callable[[], None] = lambda: None,
    ) -> Saved[User]:
        """Take a user, or a new version of one; with a password where it is a new one. Who has the password of somebody
        may what they may, so nobody saves a user who may more than themselves."""
        wanted, workspace = read(User, body, "user"), caller.workspace
        check_within(caller, wanted)
        hashed = None if password is None else await self._hashed(password, wanted.user_id)

        def make(before: Saved[User] | None) -> User:
            if before is not None:
                check_within(caller, before.thing)
            elif self._shelf.count(workspace) >= USERS_OF_WORKSPACE:
                raise Overloaded("the workspace has too many users", hint="delete some", limit=USERS_OF_WORKSPACE)
            return wanted

        return await self._write(wanted.user_id, make, caller, hashed, edited=edited, keeps=keeps, then=then)

    async def change_password(
        self, user_id: str, caller: Caller, old: str | None, new: str, *, keeps: Keeps, then: Callable[[], None]
    ) -> bool:
        """Of a user whose password still has the hash `old`; tells whether it had. The user stays as they are by then,
        whatever was changed of them meanwhile."""
        hashed = await self._hashed(new, user_id)

        def make(before: Saved[User] | None) -> User:
            if before is None or old is None or self.hash_of(caller.workspace, user_id) != old:
                raise _Stale
            return before.thing

        try:
            await self._write(user_id, make, caller, hashed, keeps=keeps, then=then)
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
        keeps: Keeps = (),
        then: Callable[[], None],
    ) -> Saved[User]:
        workspace = caller.workspace

        def kept() -> list[KeptChange]:
            own = [] if hashed is None else [PutKept(self._kept(workspace, user_id, hashed))]
            return [*own, *(keeps() if callable(keeps) else keeps)]

        def settled() -> None:
            if hashed is not None:
                self._hashes[workspace, user_id] = hashed
            then()

        return await self._shelf.save(workspace, user_id, make, by=caller.name, edited=edited, keeps=kept, then=settled)

    async def verify(self, stored: str | None, password: str) -> bool:
        """Whether it is the password with this hash; in the same time where there is none."""
        return await self._passwords.verify(stored, password)

    async def delete(
        self, user_id: str, caller: Caller, *, edited: int | None = None, along: Callable[[], JointChange] = JointChange
    ) -> None:
        """With the password, and with what goes `along`."""
        workspace = caller.workspace

        def check(before: Saved[User] | None) -> None:
            if before is None:
                raise _no_user()
            check_within(caller, before.thing)

        password = DropKept(PASSWORD, workspace, user_id)
        await self._shelf.delete(
            workspace, user_id, check, by=caller.name, edited=edited, keeps=[password], along=along
        )

    def _kept(self, workspace: str, user_id: str, hashed: str) -> KeptRow:
        return KeptRow(
            kind=PASSWORD,
            workspace=workspace,
            id=user_id,
            body=hashed.encode(),
            expires_ms=None,
            updated_ms=self._clock.now_ms(),
        )

    def _changed(self, before: Saved[User] | None, after: Saved[User] | None) -> None:
        there = after or before
        if there is None:
            return
        if after is None:
            self._hashes.pop((there.workspace, there.id), None)
        for changed in self._watchers:
            changed(there.workspace, there.id)


class _Stale(Exception):
    """The password is another one by now."""


def check_within(caller: Caller, user: User) -> None:
    """Raises `Forbidden` where a user may more than the caller, who could become that user."""
    if beyond := sorted(rights_of(user.role) - caller.rights):
        raise Forbidden(
            f"a user who is {user.role} may more than you: {', '.join(beyond[:3])}",
            hint="choose a lesser role, or ask somebody who may all of this",
            right=beyond[0],
        )


def names_of_user(user: User) -> frozenset[str]:
    """`user:ann`, and each role that she has at least: an admin is also a member."""
    roles = ROLES[: ROLES.index(user.role) + 1]
    return frozenset({f"user:{user.user_id}", "user:*", *(f"role:{role}" for role in roles)})


def _no_user() -> NotFound:
    return NotFound("there is no such user", hint="`bollard users` lists them")


# Which actors of channels are users: a rule for `user:ann` also means her id on a chat platform.


class ActorLinks:
    """One per host."""

    def __init__(self, changes: SavedChanges, changing: asyncio.Lock, users: Users) -> None:
        self._users = users
        self._shelf: SavedResources[ActorLink] = SavedResources(
            "actor",
            changes=changes,
            read=lambda body, _: read(ActorLink, body, "actor"),
            write=ActorLink.to_wire,
            changing=changing,
        )

    async def load(self, store: Store) -> None:
        await self._shelf.load(store)

    def all(self, workspace: str) -> list[Saved[ActorLink]]:
        return self._shelf.all(workspace)

    def find_saved(self, workspace: str, thing_id: str) -> Saved[ActorLink] | None:
        return self._shelf.get(workspace, thing_id)

    def get(self, workspace: str, thing_id: str) -> Saved[ActorLink]:
        """Raises `NotFound`."""
        found = self._shelf.get(workspace, thing_id)
        if found is None:
            raise _no_link()
        return found

    def user_of(self, workspace: str, actor_type: str | None, actor_id: str | None) -> User | None:
        """The user that an actor is, if somebody linked them or the actor is a user already."""
        if not actor_type or not actor_id or ":" in actor_type:
            return None
        if actor_type == "user" and (user := self._users.find(workspace, actor_id)) is not None:
            return None if user.disabled else user
        link = self._shelf.get(workspace, link_id(f"{actor_type}:{actor_id}"))
        user = None if link is None else self._users.find(workspace, link.thing.user_id)
        return None if user is None or user.disabled else user

    def names(self, workspace: str, actor_type: str | None, actor_id: str | None) -> frozenset[str]:
        """Everything that a rule may call this actor: its own `type:id`, its user, and that user's roles."""
        own = own_names(workspace, actor_type, actor_id)
        user = self.user_of(workspace, actor_type, actor_id) if own else None
        return own if user is None else own | names_of_user(user)

    async def save(self, body: JsonObject, caller: Caller) -> Saved[ActorLink]:
        """Rules let an actor do what its user may, so nobody links one to a user who may more than themselves."""
        wanted, workspace = read(ActorLink, body, "actor"), caller.workspace
        if wanted.actor.startswith(("user:", "role:", "key:")):
            raise InvalidRequest(
                f"actor.actor: {wanted.actor.partition(':')[0]} is not a type that a channel gives",
                hint="link the actor of a channel, as its events name it",
                field="actor.actor",
            )

        def make(before: Saved[ActorLink] | None) -> ActorLink:
            user = self._users.find(workspace, wanted.user_id)
            if user is None:
                raise InvalidRequest(
                    f"actor.user_id: there is no user {wanted.user_id}",
                    hint="`bollard users` lists them",
                    field="actor.user_id",
                )
            check_within(caller, user)
            if before is None and self._shelf.count(workspace) >= ACTORS_OF_WORKSPACE:
                raise Overloaded("the workspace has too many links", hint="delete some", limit=ACTORS_OF_WORKSPACE)
            return wanted

        return await self._shelf.save(workspace, link_id(wanted.actor), make, by=caller.name)

    def leaving(self, workspace: str, user_id: str, by: str) -> JointChange:
        """Those of a user who is deleted: who gets the id next is somebody else."""
        return self._shelf.leaving(workspace, lambda saved: saved.thing.user_id == user_id, by)

    async def delete(self, workspace: str, thing_id: str, by: str, *, edited: int | None = None) -> None:
        def check(before: Saved[ActorLink] | None) -> None:
            if before is None:
                raise _no_link()

        await self._shelf.delete(workspace, thing_id, check, by=by, edited=edited)


def _no_link() -> NotFound:
    return NotFound("there is no such link", hint="`bollard users links` lists them")

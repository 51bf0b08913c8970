"""Which actors of channels are users: a rule for `user:ann` also means her id on a chat platform."""

import asyncio

from bollard.host.agents.names import own_names
from bollard.host.errors import InvalidRequest, NotFound, Overloaded
from bollard.host.identity.caller import Caller
from bollard.host.identity.things import ActorLink, User, link_id, read
from bollard.host.identity.users import Users, check_within, names_of_user
from bollard.host.limits import ACTORS_OF_WORKSPACE
from bollard.host.log.saved_changes import SavedChanges
from bollard.host.log.shelf import Along, Saved, Shelf
from bollard.host.store.boundary import Store
from bollard.protocol import JsonObject

__all__ = ["ActorLinks"]


class ActorLinks:
    """One per host."""

    def __init__(self, changes: SavedChanges, changing: asyncio.Lock, users: Users) -> None:
        self._users = users
        self._shelf: Shelf[ActorLink] = Shelf(
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

    def leaving(self, workspace: str, user_id: str, by: str) -> Along:
        """Those of a user who is deleted: who gets the id next is somebody else."""
        return self._shelf.leaving(workspace, lambda saved: saved.thing.user_id == user_id, by)

    async def delete(self, workspace: str, thing_id: str, by: str, *, edited: int | None = None) -> None:
        def check(before: Saved[ActorLink] | None) -> None:
            if before is None:
                raise _no_link()

        await self._shelf.delete(workspace, thing_id, check, by=by, edited=edited)


def _no_link() -> NotFound:
    return NotFound("there is no such link", hint="`bollard users links` lists them")

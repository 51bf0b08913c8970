"""`/users` and `/actors`: the people of a workspace, and which actors of channels they are."""

from typing import Final

import msgspec
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.http.answers import read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.operations import Operation
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import operation
from bollard.host.http.resources.saved_routes import ResourceRoutes, SavedResource, SavedRoutes, shown_as
from bollard.host.http.revisions import revised
from bollard.host.identity.caller import Caller
from bollard.host.identity.directory import IdentityDirectory
from bollard.host.identity.entities import ActorLink, User
from bollard.host.identity.users import ACTOR_LINK, USER
from bollard.host.limits import PASSWORD_CHARACTERS
from bollard.host.log.saved_resources import Saved
from bollard.protocol import Int, JsonObject


class SaveUser(User):
    """`PUT /api/v1/users/{user_id}`."""

    user_id: str = Field(default="", description="That of the path.")
    password: str | None = Field(
        default=None, max_length=PASSWORD_CHARACTERS, description="A new one; without it the password stays."
    )
    revision: Int | None = Field(default=None, ge=0, description="The revision that was edited.")


_USER: Final = SavedResource(
    kind=USER,
    path="/api/v1/users",
    id="user_id",
    names=("User", "Users"),
    right="users",
    body=SaveUser,
    body_example={"name": "Ann", "role": "operator", "password": "correct horse battery"},
    shown=shown_as("User", User, {"user_id": "ann", "name": "Ann", "role": "operator", "password": True}),
    summaries={"delete": "Delete a user with their sessions, keys and links."},
    descriptions={
        "save": "Without `password` the password stays. A new password, and `disabled`, end every session of the user."
    },
)
_LINK_BODY: Final[JsonObject] = {"actor": "feishu:ou_1", "user_id": "ann"}
_LINK: Final = SavedResource(
    kind=ACTOR_LINK,
    path="/api/v1/actors",
    id="link_id",
    names=("Actor", "Actors"),
    right="users",
    body=ActorLink,
    body_example=_LINK_BODY,
    shown=shown_as("LinkedActor", ActorLink, {"link_id": "4b1f0e2c7d8a4f9e8d7c6b5a49382716", **_LINK_BODY}),
    summaries={"list": "List the actors of channels that are users of the workspace."},
)


class Users(SavedRoutes[User]):
    """People who log in, or have keys."""

    resource = _USER

    def __init__(self, directory: IdentityDirectory, pages: Pages) -> None:
        super().__init__(directory.users, pages)
        self._directory = directory

    def show_item(self, saved: Saved[User]) -> JsonObject:
        """The answer says whether there is a password, and never which."""
        has_password = self._directory.users.has_password(saved.workspace, saved.id)
        return {**saved.thing.to_wire(), "password": has_password, "revision": saved.revision}

    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[User], JsonObject]:
        del resource_id  # the body has it
        wanted = parsed(SaveUser, body)
        user: JsonObject = {name: body[name] for name in User.model_fields if name in body}
        return await self._directory.save_user(user, caller, password=wanted.password, edited=edited), {}

    async def remove(self, caller: Caller, resource_id: str, edited: int | None) -> JsonObject:
        await self._directory.delete_user(resource_id, caller, edited=edited)
        return {}


class ActorLinks(ResourceRoutes[ActorLink]):
    """Actors of channels that are users."""

    resource = _LINK
    verbs = ("list", "get")

    def __init__(self, directory: IdentityDirectory, pages: Pages) -> None:
        super().__init__(directory.links, pages)
        self._links = directory.links

    @classmethod
    def operations(cls) -> list[Operation]:
        [delete] = _LINK.operations(cls, ("delete",))
        unlink = msgspec.structs.replace(delete, name="unlinkActor", summary="Delete the link of an actor.")
        return [*super().operations(), unlink]

    @operation(
        f"POST {_LINK.path}",
        name="linkActor",
        summary="Link an actor of a channel to a user. A linked actor gets the new user.",
        right="users.write",
        body=ActorLink,
        body_example=_LINK.body_example,
        answers={201: _LINK.answer, 200: _LINK.answer},
    )
    async def link(self, request: Request) -> Response:
        saved = await self._links.save(await read_body(request), caller_of(request))
        status = 201 if saved.revision == 1 else 200
        return revised(request, self.show_item(saved), saved.revision, status_code=status)

    def show_item(self, saved: Saved[ActorLink]) -> JsonObject:
        return {"link_id": saved.id, **saved.thing.to_wire(), "revision": saved.revision}

"""`/users` and `/actors`: the people of a workspace, and which actors of channels they are."""

from typing import Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.examples import page_example
from bollard.host.http.openapi.schemas import FLAG, NUMBER, TEXT, choice, fields, named
from bollard.host.http.operations import PAGE, Answer, Operation, leads_to, page_of
from bollard.host.http.queries import Pages
from bollard.host.http.resources.agents import REVISION, named_by_path
from bollard.host.http.revisions import edited_revision, held_to_match, revised
from bollard.host.identity.caller import ROLES
from bollard.host.identity.directory import IdentityDirectory
from bollard.host.identity.entities import ActorLink, User
from bollard.host.limits import PASSWORD_CHARACTERS
from bollard.host.log.saved_resources import Saved
from bollard.protocol import Int, JsonObject

_USER: Final = named(
    "User", fields({"name": TEXT}, user_id=TEXT, role=choice(*ROLES), disabled=FLAG, password=FLAG, revision=NUMBER)
)
_EXAMPLE: Final[JsonObject] = {
    "user_id": "ann",
    "name": "Ann",
    "role": "operator",
    "disabled": False,
    "password": True,
    "revision": 1,
}
_LINK: Final = named("LinkedActor", fields(link_id=TEXT, actor=TEXT, user_id=TEXT, revision=NUMBER))
_LINK_EXAMPLE: Final[JsonObject] = {
    "link_id": "4b1f0e2c7d8a4f9e8d7c6b5a49382716",
    "actor": "feishu:ou_1",
    "user_id": "ann",
    "revision": 1,
}


class SaveUser(User):
    """`PUT /api/v1/users/{user_id}`."""

    user_id: str = Field(default="", description="That of the path.")
    password: str | None = Field(
        default=None, max_length=PASSWORD_CHARACTERS, description="A new one; without it the password stays."
    )
    revision: Int | None = Field(default=None, ge=0, description="The revision that was edited.")


class Users:
    """People who log in, or have keys."""

    def __init__(self, book: IdentityDirectory, pages: Pages) -> None:
        self._book = book
        self._pages = pages

    @staticmethod
    def operations() -> list[Operation]:
        users, user = "/api/v1/users", "/api/v1/users/{user_id}"
        saved = Answer(summary="The user as it is now.", schema=_USER, example=_EXAMPLE)
        return [
            Operation(
                method="GET",
                path=users,
                handler=Users.list,
                name="listUsers",
                tag="users",
                summary="The users of the workspace.",
                right="users.read",
                query=PAGE,
                answers={
                    200: Answer(summary="A page of users.", schema=page_of(_USER), example=page_example(_EXAMPLE))
                },
            ),
            Operation(
                method="GET",
                path=user,
                handler=Users.get,
                name="getUser",
                tag="users",
                summary="One user.",
                right="users.read",
                editable=True,
                answers={200: saved},
                errors=("not_found",),
            ),
            Operation(
                method="PUT",
                path=user,
                handler=Users.put,
                name="saveUser",
                tag="users",
                summary="Save a user, or a new revision of one. A new password ends their sessions.",
                description="Without `password` the password stays; a new one, and `disabled`, end every session "
                "of the user.",
                right="users.write",
                body=SaveUser,
                body_example={"name": "Ann", "role": "operator", "password": "correct horse battery"},
                editable=True,
                answers={
                    200: saved,
                    201: Answer(
                        summary="The user is new.",
                        links=leads_to("user_id", getUser="Read it again.", deleteUser="Delete it."),
                        schema=_USER,
                        example=_EXAMPLE,
                    ),
                },
                errors=("conflict", "precondition_failed"),
            ),
            Operation(
                method="DELETE",
                path=user,
                handler=Users.delete,
                name="deleteUser",
                tag="users",
                summary="Delete a user, with their sessions, keys and links.",
                right="users.write",
                query=(REVISION,),
                editable=True,
                answers={
                    200: Answer(
                        summary="The user is gone.",
                        schema=fields(user_id=TEXT, deleted=FLAG),
                        example={"user_id": "ann", "deleted": True},
                    )
                },
                errors=("not_found", "conflict", "precondition_failed"),
            ),
        ]

    async def list(self, request: Request) -> Response:
        found = self._book.users.all(caller_of(request).workspace)
        return self._pages.of_all(request, "users.list", found, _saved_id, self._shown)

    async def get(self, request: Request) -> Response:
        saved = self._book.users.get(caller_of(request).workspace, request.path_params["user_id"])
        return revised(request, self._shown(saved), saved.revision)

    async def put(self, request: Request) -> Response:
        caller, user_id = caller_of(request), request.path_params["user_id"]
        body = named_by_path(await read_body(request), "user_id", user_id)
        wanted = parsed(SaveUser, body)
        edited = revision_in(request, self._revision(caller.workspace, user_id), body, wanted.revision)
        user: JsonObject = {name: body[name] for name in User.model_fields if name in body}
        with held_to_match(request):
            saved = await self._book.save_user(user, caller, password=wanted.password, edited=edited)
        return revised(request, self._shown(saved), saved.revision, status_code=201 if saved.revision == 1 else 200)

    async def delete(self, request: Request) -> Response:
        caller, user_id = caller_of(request), request.path_params["user_id"]
        edited = edited_revision(request, self._revision(caller.workspace, user_id))
        with held_to_match(request):
            await self._book.delete_user(user_id, caller, edited=edited)
        return JsonAnswer({"user_id": user_id, "deleted": True})

    def _revision(self, workspace: str, user_id: str) -> int | None:
        found = self._book.users.find_saved(workspace, user_id)
        return None if found is None else found.revision

    def _shown(self, saved: Saved[User]) -> JsonObject:
        """Whether there is a password, and never which."""
        has = self._book.users.has_password(saved.workspace, saved.id)
        return {**saved.thing.to_wire(), "password": has, "revision": saved.revision}


class ActorLinks:
    """Actors of channels that are users."""

    def __init__(self, book: IdentityDirectory, pages: Pages) -> None:
        self._links = book.links
        self._pages = pages

    @staticmethod
    def operations() -> list[Operation]:
        links, link = "/api/v1/actors", "/api/v1/actors/{link_id}"
        saved = Answer(summary="The link as it is now.", schema=_LINK, example=_LINK_EXAMPLE)
        return [
            Operation(
                method="GET",
                path=links,
                handler=ActorLinks.list,
                name="listActors",
                tag="users",
                summary="The actors of channels that are users of the workspace.",
                right="users.read",
                query=PAGE,
                answers={
                    200: Answer(summary="A page of links.", schema=page_of(_LINK), example=page_example(_LINK_EXAMPLE))
                },
            ),
            Operation(
                method="POST",
                path=links,
                handler=ActorLinks.link,
                name="linkActor",
                tag="users",
                summary="Say which user an actor of a channel is. One that is linked already gets the new user.",
                right="users.write",
                body=ActorLink,
                body_example={"actor": "feishu:ou_1", "user_id": "ann"},
                answers={201: saved, 200: saved},
            ),
            Operation(
                method="GET",
                path=link,
                handler=ActorLinks.get,
                name="getActor",
                tag="users",
                summary="One link.",
                right="users.read",
                editable=True,
                answers={200: saved},
                errors=("not_found",),
            ),
            Operation(
                method="DELETE",
                path=link,
                handler=ActorLinks.unlink,
                name="unlinkActor",
                tag="users",
                summary="The actor is nobody in particular any more.",
                right="users.write",
                query=(REVISION,),
                editable=True,
                answers={
                    200: Answer(
                        summary="The link is gone.",
                        schema=fields(link_id=TEXT, deleted=FLAG),
                        example={"link_id": "4b1f0e2c7d8a4f9e8d7c6b5a49382716", "deleted": True},
                    )
                },
                errors=("not_found", "conflict", "precondition_failed"),
            ),
        ]

    async def list(self, request: Request) -> Response:
        found = self._links.all(caller_of(request).workspace)
        return self._pages.of_all(request, "actors.list", found, _saved_id, _linked)

    async def get(self, request: Request) -> Response:
        saved = self._links.get(caller_of(request).workspace, request.path_params["link_id"])
        return revised(request, _linked(saved), saved.revision)

    async def link(self, request: Request) -> Response:
        caller = caller_of(request)
        saved = await self._links.save(await read_body(request), caller)
        return revised(request, _linked(saved), saved.revision, status_code=201 if saved.revision == 1 else 200)

    async def unlink(self, request: Request) -> Response:
        caller, link_id = caller_of(request), request.path_params["link_id"]
        found = self._links.find_saved(caller.workspace, link_id)
        edited = edited_revision(request, None if found is None else found.revision)
        with held_to_match(request):
            await self._links.delete(caller.workspace, link_id, caller.name, edited=edited)
        return JsonAnswer({"link_id": link_id, "deleted": True})


def revision_in(request: Request, now: int | None, body: JsonObject, named: int | None) -> int | None:
    """The revision that was edited: of a header, else of the body."""
    edited = edited_revision(request, now, body)
    return named if edited is None else edited


def _saved_id(saved: Saved[User] | Saved[ActorLink]) -> str:
    return saved.id


def _linked(saved: Saved[ActorLink]) -> JsonObject:
    return {"link_id": saved.id, **saved.thing.to_wire(), "revision": saved.revision}

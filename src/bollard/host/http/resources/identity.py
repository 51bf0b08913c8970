"""`/users`, `/actors`, `/keys` and `/workspaces`: users, their actors in channels, API keys, workspaces."""

from typing import Final

import msgspec
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.agents.names import ChosenName
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import TEXT, TIME, array_of, choice
from bollard.host.http.operations import Operation, Resource, leads_to
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import answer, answer_body, operation, seconds
from bollard.host.http.resources.saved_routes import ResourceRoutes, SavedResource, SavedRoutes, shown_as
from bollard.host.http.resources.session import SessionRoutes
from bollard.host.http.resources.sessions import SessionList
from bollard.host.http.revisions import revised
from bollard.host.identity.caller import RIGHTS, Caller, Right
from bollard.host.identity.directory import IdentityDirectory
from bollard.host.identity.entities import ActorLink, ApiKey, ShownName, User, Workspace
from bollard.host.identity.keys import API_KEY, KeyRequest
from bollard.host.identity.users import ACTOR_LINK, USER
from bollard.host.identity.workspaces import WORKSPACE
from bollard.host.limits import KEY_LIFE_MAX_S, KEY_LIFE_S, PASSWORD_CHARACTERS
from bollard.host.log.saved_resources import Saved
from bollard.protocol import Int, JsonObject, Number, Strict


class SaveUser(User):
    """`PUT /api/v1/users/{user_id}`."""

    user_id: str = Field(default="", description="The id in the path.")
    password: str | None = Field(
        default=None, max_length=PASSWORD_CHARACTERS, description="A new password; without it the password stays."
    )
    revision: Int | None = Field(default=None, ge=0, description="The edited revision.")


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
    """Users: people who log in or own keys."""

    resource = _USER

    def __init__(self, directory: IdentityDirectory, pages: Pages) -> None:
        super().__init__(directory.users, pages)
        self._directory = directory

    def show_item(self, saved: Saved[User]) -> JsonObject:
        """The answer says whether the user has a password, never the password."""
        has_password = self._directory.users.has_password(saved.workspace, saved.id)
        return {**saved.value.to_wire(), "password": has_password, "revision": saved.revision}

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


class MakeLinkCode(Strict):
    """`POST /api/v1/actors/codes`."""

    user_id: ChosenName | None = None


class RedeemLinkCode(Strict):
    """`POST /api/v1/actors/redeem`."""

    code: str = Field(min_length=1, max_length=64)
    user_id: ChosenName | None = None


class ActorLinks(ResourceRoutes[ActorLink]):
    """Links between actors of channels and users."""

    resource = _LINK
    verbs = ("list", "get")

    def __init__(self, directory: IdentityDirectory, pages: Pages) -> None:
        super().__init__(directory.links, pages)
        self._links = directory.links
        self._codes = directory.codes

    @classmethod
    def operations(cls) -> list[Operation]:
        [delete] = _LINK.operations(cls, ("delete",))
        unlink = msgspec.structs.replace(delete, name="unlinkActor", summary="Delete the link of an actor.")
        return [*super().operations(), unlink]

    @operation(
        f"POST {_LINK.path}",
        name="linkActor",
        summary="Link an actor of a channel to a user. An existing link is replaced.",
        right="users.write",
        body=ActorLink,
        body_example=_LINK.body_example,
        answers={201: _LINK.answer, 200: _LINK.answer},
    )
    async def link(self, request: Request) -> Response:
        saved = await self._links.save(await read_body(request), caller_of(request))
        status = 201 if saved.revision == 1 else 200
        return revised(request, self.show_item(saved), saved.revision, status_code=status)

    @operation(
        f"POST {_LINK.path}/codes",
        name="makeLinkCode",
        summary="Make a one-time code that links an account of a chat to you.",
        description="Send `/link CODE` in a private chat with a bot within 10 minutes. Needs a session; with the right "
        "`users.write`, `user_id` names another user.",
        body=MakeLinkCode,
        body_example={"user_id": "ann"},
        answers={201: answer("The code, which is shown once.", code="7KQ2M4XWPD", expires_at=1794735485.1)},
        errors=("rate_limited",),
    )
    async def make_code(self, request: Request) -> Response:
        body = parsed(MakeLinkCode, await read_body(request))
        code, expires_ms = await self._codes.for_user(caller_of(request), body.user_id)
        return JsonAnswer({"code": code, "expires_at": expires_ms / 1000}, status_code=201)

    @operation(
        f"POST {_LINK.path}/redeem",
        name="redeemLinkCode",
        summary="Link the account of a chat that got this code with `/link` to you.",
        description="Needs a session; with the right `users.write`, `user_id` names another user.",
        body=RedeemLinkCode,
        body_example={"code": "7KQ2M4XWPD", "user_id": "ann"},
        answers={201: _LINK.answer, 200: _LINK.answer},
        errors=("rate_limited",),
    )
    async def redeem(self, request: Request) -> Response:
        body = parsed(RedeemLinkCode, await read_body(request))
        saved = await self._codes.redeem_as_user(caller_of(request), body.code, body.user_id)
        status = 201 if saved.revision == 1 else 200
        return revised(request, self.show_item(saved), saved.revision, status_code=status)

    def show_item(self, saved: Saved[ActorLink]) -> JsonObject:
        return {"link_id": saved.id, **saved.value.to_wire(), "revision": saved.revision}


_KEY: Final = answer_body(
    "ApiKey",
    {
        "key_id": "0f1e2d3c4b5a6978",
        "name": "ci",
        "rights": ["runs.create"],
        "made_by": "admin-token",
        "created_at": 1767225600.0,
        "expires_at": 1775001600.0,
        "expired": False,
        "revision": 1,
    },
    {"user_id": TEXT, "last_used_at": TIME},
    rights=array_of(choice(*RIGHTS)),
)


class MakeKey(Strict):
    """`POST /api/v1/keys`."""

    name: ShownName
    rights: tuple[Right, ...] = Field(
        min_length=1, max_length=len(RIGHTS), description="Rights of the key: a subset of the caller's own."
    )
    expires_in_s: Number = Field(default=KEY_LIFE_S, gt=0, le=KEY_LIFE_MAX_S)


_RESOURCE: Final = SavedResource(
    kind=API_KEY,
    path="/api/v1/keys",
    id="key_id",
    names=("Key", "Keys"),
    right="keys",
    body=MakeKey,
    body_example={"name": "ci", "rights": ["runs.create"]},
    shown=_KEY,
    summaries={"list": "List the API keys of the workspace.", "delete": "Delete a key. It opens nothing from then on."},
)


class Keys(ResourceRoutes[ApiKey]):
    """The API keys of programs."""

    resource = _RESOURCE
    verbs = ("list", "get", "delete")

    def __init__(self, directory: IdentityDirectory, pages: Pages) -> None:
        super().__init__(directory.keys, pages)
        self._directory = directory

    @operation(
        "POST /api/v1/keys",
        name="makeKey",
        summary="Make an API key. The answer shows its token once.",
        description="The rights of a key are a subset of its creator's rights. The host stores only the digest of the "
        "token.",
        right="keys.write",
        body=MakeKey,
        body_example=_RESOURCE.body_example,
        answers={
            201: _KEY.extended("", {"token": "blk_0f1e2d3c4b5a6978_…"}).answer(
                "The key, with its token.",
                links=leads_to("key_id", getKey="Read the key, without its token.", deleteKey="Delete it."),
            )
        },
    )
    async def make(self, request: Request) -> Response:
        body = parsed(MakeKey, await read_body(request))
        wanted = KeyRequest(name=body.name, rights=body.rights, expires_in_s=body.expires_in_s)
        made = await self._directory.keys.make(wanted, caller_of(request))
        return JsonAnswer({**self.show_item(made.saved), "token": made.token}, status_code=201)

    async def remove(self, caller: Caller, resource_id: str, edited: int | None) -> JsonObject:
        await self._directory.delete_key(resource_id, caller, edited=edited)
        return {}

    def show_item(self, saved: Saved[ApiKey]) -> JsonObject:
        key = saved.value
        return _KEY.of(
            key,
            rights=[*key.rights],
            expired=self._directory.keys.has_expired(key),
            revision=saved.revision,
            user_id=key.user_id,
            last_used_at=seconds(self._directory.uses.last(saved.workspace, saved.id)),
        )


class SaveWorkspace(Strict):
    """`PUT /api/v1/workspaces/{workspace_id}`."""

    workspace_id: str = Field(default="", description="The id in the path.")
    name: ShownName | None = None
    revision: Int | None = Field(default=None, ge=0, description="The edited revision.")


_WORKSPACE: Final = SavedResource(
    kind=WORKSPACE,
    path="/api/v1/workspaces",
    id="workspace_id",
    names=("Workspace", "Workspaces"),
    right="workspaces",
    body=SaveWorkspace,
    body_example={"name": "North"},
    shown=answer_body("Workspace", {"workspace_id": "north", "name": "North", "revision": 1}, {"name": TEXT}),
    summaries={
        "list": "List the workspaces that you can use.",
        "save": "Make a workspace, or rename one.",
        "delete": "Close a workspace: its callers are refused, its runs are stopped, and its id is not used again.",
    },
)


class Workspaces(SavedRoutes[Workspace]):
    """Workspaces. Only the admin token creates and deletes them."""

    resource = _WORKSPACE

    def __init__(self, directory: IdentityDirectory, pages: Pages) -> None:
        self._workspaces = directory.workspaces
        self._pages = pages

    def all(self, caller: Caller) -> list[Saved[Workspace]]:
        return [saved for saved in self._workspaces.all() if _is_seen(caller, saved.id)]

    def find(self, caller: Caller, resource_id: str) -> Saved[Workspace] | None:
        if not _is_seen(caller, resource_id):
            raise WORKSPACE.missing()
        return self._workspaces.get(resource_id) if self._workspaces.is_open(resource_id) else None

    def show_item(self, saved: Saved[Workspace]) -> JsonObject:
        body: JsonObject = {"workspace_id": saved.id, "revision": saved.revision}
        return body if saved.value.name is None else {**body, "name": saved.value.name}

    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[Workspace], JsonObject]:
        wanted = parsed(SaveWorkspace, body)
        workspace: JsonObject = {"workspace_id": resource_id, **({} if wanted.name is None else {"name": wanted.name})}
        return await self._workspaces.save(workspace, caller.name, edited), {}

    def is_created(self, before: Saved[Workspace] | None, saved: Saved[Workspace]) -> bool:
        del saved  # the first workspace exists without being saved
        return before is None

    async def remove(self, caller: Caller, resource_id: str, edited: int | None) -> JsonObject:
        await self._workspaces.close(resource_id, caller.name, edited)
        return {}


def _is_seen(caller: Caller, workspace_id: str) -> bool:
    """The admin token sees all workspaces; other callers see their own."""
    return caller.kind == "installation" or caller.workspace == workspace_id


IDENTITY_RESOURCES: Final[tuple[type[Resource], ...]] = (
    SessionRoutes,
    SessionList,
    Users,
    ActorLinks,
    Keys,
    Workspaces,
)


def identity_resources(book: IdentityDirectory, cursor_secret: bytes) -> tuple[Resource, ...]:
    pages = Pages(cursor_secret)
    return (
        SessionRoutes(book),
        SessionList(book.sessions, pages),
        Users(book, pages),
        ActorLinks(book, pages),
        Keys(book, pages),
        Workspaces(book, pages),
    )

"""`/keys`: API keys of a workspace. A token is in the answer to its making, and in no other."""

from typing import Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import TEXT, TIME, array_of, choice
from bollard.host.http.operations import leads_to
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import answer_body, operation
from bollard.host.http.resources.saved_routes import ResourceRoutes, SavedResource
from bollard.host.identity.caller import RIGHTS, Caller, Right
from bollard.host.identity.directory import IdentityDirectory
from bollard.host.identity.entities import ApiKey, ShownName
from bollard.host.identity.keys import API_KEY, KeyRequest
from bollard.host.limits import KEY_LIFE_MAX_S, KEY_LIFE_S
from bollard.host.log.saved_resources import Saved
from bollard.protocol import JsonObject, Number, Strict

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
    rights: tuple[Right, ...] = Field(min_length=1, max_length=len(RIGHTS), description="A part of what you may.")
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
    summaries={
        "list": "List the API keys of the workspace.",
        "delete": "Delete a key. It opens nothing from then on.",
    },
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
        description="The rights of a key are a part of the rights of its maker. The host keeps the digest of "
        "the token only.",
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
        await self._directory.keys.delete_as(caller, resource_id, edited=edited)
        return {}

    def show_item(self, saved: Saved[ApiKey]) -> JsonObject:
        key = saved.thing
        body: JsonObject = {
            "key_id": key.key_id,
            "name": key.name,
            "rights": [*key.rights],
            "made_by": key.made_by,
            "created_at": key.created_ms / 1000,
            "expires_at": key.expires_ms / 1000,
            "expired": self._directory.keys.has_expired(key),
            "revision": saved.revision,
        }
        if key.user_id is not None:
            body["user_id"] = key.user_id
        last = self._directory.uses.last(saved.workspace, saved.id)
        return body if last is None else {**body, "last_used_at": last / 1000}

"""`/keys`: API keys of a workspace. A token is in the answer to its making, and in no other."""

from typing import Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.examples import page_example
from bollard.host.http.openapi.schemas import FLAG, NUMBER, TEXT, TIME, array_of, choice, fields, named
from bollard.host.http.operations import PAGE, Answer, Operation, leads_to, page_of
from bollard.host.http.queries import Pages
from bollard.host.http.resources.agents import REVISION
from bollard.host.http.revisions import edited_revision, held_to_match, revised
from bollard.host.identity.caller import RIGHTS, Right
from bollard.host.identity.directory import IdentityDirectory
from bollard.host.identity.entities import ApiKey, ShownName
from bollard.host.identity.keys import KeyRequest
from bollard.host.limits import KEY_LIFE_MAX_S, KEY_LIFE_S
from bollard.host.log.saved_resources import Saved
from bollard.protocol import JsonObject, JsonValue, Number, Strict

_PROPERTIES: Final[dict[str, JsonValue]] = {
    "key_id": TEXT,
    "name": TEXT,
    "rights": array_of(choice(*RIGHTS)),
    "made_by": TEXT,
    "created_at": TIME,
    "expires_at": TIME,
    "expired": FLAG,
    "revision": NUMBER,
}
_OPTIONAL: Final[JsonObject] = {"user_id": TEXT, "last_used_at": TIME}
_KEY: Final = named("ApiKey", fields(_OPTIONAL, **_PROPERTIES))
_EXAMPLE: Final[JsonObject] = {
    "key_id": "0f1e2d3c4b5a6978",
    "name": "ci",
    "rights": ["runs.create"],
    "made_by": "admin-token",
    "created_at": 1767225600.0,
    "expires_at": 1775001600.0,
    "expired": False,
    "revision": 1,
}


class MakeKey(Strict):
    """`POST /api/v1/keys`."""

    name: ShownName
    rights: tuple[Right, ...] = Field(min_length=1, max_length=len(RIGHTS), description="A part of what you may.")
    expires_in_s: Number = Field(default=KEY_LIFE_S, gt=0, le=KEY_LIFE_MAX_S)


class Keys:
    """Programs that may come in."""

    def __init__(self, book: IdentityDirectory, pages: Pages) -> None:
        self._book = book
        self._pages = pages

    @staticmethod
    def operations() -> list[Operation]:
        keys, key = "/api/v1/keys", "/api/v1/keys/{key_id}"
        return [
            Operation(
                method="GET",
                path=keys,
                handler=Keys.list,
                name="listKeys",
                tag="keys",
                summary="The API keys of the workspace.",
                right="keys.read",
                query=PAGE,
                answers={200: Answer(summary="A page of keys.", schema=page_of(_KEY), example=page_example(_EXAMPLE))},
            ),
            Operation(
                method="POST",
                path=keys,
                handler=Keys.make,
                name="makeKey",
                tag="keys",
                summary="Make an API key. Its token is told here and never again.",
                description="Its rights are a part of those of the caller. Only the digest of the token is kept.",
                right="keys.write",
                body=MakeKey,
                body_example={"name": "ci", "rights": ["runs.create"]},
                answers={
                    201: Answer(
                        summary="The key, with its token.",
                        links=leads_to("key_id", getKey="Read it again, without its token.", deleteKey="Delete it."),
                        schema=fields(_OPTIONAL, token=TEXT, **_PROPERTIES),
                        example={**_EXAMPLE, "token": "blk_0f1e2d3c4b5a6978_…"},
                    )
                },
            ),
            Operation(
                method="GET",
                path=key,
                handler=Keys.get,
                name="getKey",
                tag="keys",
                summary="One key.",
                right="keys.read",
                editable=True,
                answers={200: Answer(summary="The key.", schema=_KEY, example=_EXAMPLE)},
                errors=("not_found",),
            ),
            Operation(
                method="DELETE",
                path=key,
                handler=Keys.delete,
                name="deleteKey",
                tag="keys",
                summary="Delete a key. It opens nothing from then on.",
                right="keys.write",
                query=(REVISION,),
                editable=True,
                answers={
                    200: Answer(
                        summary="The key is gone.",
                        schema=fields(key_id=TEXT, deleted=FLAG),
                        example={"key_id": "0f1e2d3c4b5a6978", "deleted": True},
                    )
                },
                errors=("not_found", "conflict", "precondition_failed"),
            ),
        ]

    async def list(self, request: Request) -> Response:
        found = self._book.keys.all(caller_of(request).workspace)
        return self._pages.of_all(request, "keys.list", found, _saved_id, self._shown)

    async def get(self, request: Request) -> Response:
        saved = self._book.keys.get(caller_of(request).workspace, request.path_params["key_id"])
        return revised(request, self._shown(saved), saved.revision)

    async def make(self, request: Request) -> Response:
        body = parsed(MakeKey, await read_body(request))
        wanted = KeyRequest(name=body.name, rights=body.rights, expires_in_s=body.expires_in_s)
        made = await self._book.keys.make(wanted, caller_of(request))
        return JsonAnswer({**self._shown(made.saved), "token": made.token}, status_code=201)

    async def delete(self, request: Request) -> Response:
        caller, key_id = caller_of(request), request.path_params["key_id"]
        found = self._book.keys.find_saved(caller.workspace, key_id)
        edited = edited_revision(request, None if found is None else found.revision)
        with held_to_match(request):
            await self._book.keys.delete(caller.workspace, key_id, caller, edited=edited)
        return JsonAnswer({"key_id": key_id, "deleted": True})

    def _shown(self, saved: Saved[ApiKey]) -> JsonObject:
        key = saved.thing
        body: JsonObject = {
            "key_id": key.key_id,
            "name": key.name,
            "rights": [*key.rights],
            "made_by": key.made_by,
            "created_at": key.created_ms / 1000,
            "expires_at": key.expires_ms / 1000,
            "expired": self._book.keys.has_expired(key),
            "revision": saved.revision,
        }
        if key.user_id is not None:
            body["user_id"] = key.user_id
        last = self._book.uses.last(saved.workspace, saved.id)
        return body if last is None else {**body, "last_used_at": last / 1000}


def _saved_id(saved: Saved[ApiKey]) -> str:
    return saved.id

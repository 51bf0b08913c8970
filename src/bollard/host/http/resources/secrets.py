"""`/secrets`: what is kept for agents and tools and shown to nobody. A value goes in and never comes out."""

from typing import Annotated, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.examples import page_example
from bollard.host.http.openapi.schemas import FLAG, NUMBER, TEXT, TIME, fields, named
from bollard.host.http.operations import PAGE, Answer, Operation, leads_to, page_of
from bollard.host.http.queries import Pages
from bollard.host.http.resources.agents import REVISION
from bollard.host.http.revisions import edited_revision, held_to_match, revised
from bollard.host.limits import SECRET_CHARACTERS
from bollard.host.log.saved_resources import Saved
from bollard.host.secrets.vault import SecretNote, Vault, is_masked
from bollard.protocol import Int, JsonObject, Strict

_SECRET: Final = named(
    "Secret",
    fields(
        {"last_used_at": TIME, "masked": FLAG},
        secret_name=TEXT,
        created_at=TIME,
        set_at=TIME,
        set_by=TEXT,
        readable=FLAG,
        revision=NUMBER,
    ),
)
_EXAMPLE: Final[JsonObject] = {
    "secret_name": "GITHUB_TOKEN",
    "created_at": 1767225600.0,
    "set_at": 1767225600.0,
    "set_by": "user:ann",
    "readable": True,
    "revision": 1,
}
_Value = Annotated[str, Field(min_length=1, max_length=SECRET_CHARACTERS)]


class SaveSecret(Strict):
    """`PUT /api/v1/secrets/{secret_name}`."""

    value: _Value
    revision: Int | None = Field(default=None, ge=0, description="The revision that was edited.")


class Fingerprinted(Strict):
    """`POST /api/v1/fingerprints`."""

    value: _Value


class Secrets:
    """Names, dates and uses. Values are not here."""

    def __init__(self, vault: Vault, pages: Pages) -> None:
        self._vault = vault
        self._pages = pages

    @staticmethod
    def operations() -> list[Operation]:
        secret = "/api/v1/secrets/{secret_name}"  # noqa: S105 -- a path
        saved = Answer(summary="What may be known of it.", schema=_SECRET, example=_EXAMPLE)
        return [
            Operation(
                method="GET",
                path="/api/v1/secrets",
                handler=Secrets.list,
                name="listSecrets",
                tag="secrets",
                summary="The secrets of the workspace: names and dates, no values.",
                description="A name with slashes, such as `agent/polly/key`, belongs to what it names.",
                right="secrets.read",
                query=PAGE,
                answers={
                    200: Answer(summary="A page of secrets.", schema=page_of(_SECRET), example=page_example(_EXAMPLE))
                },
            ),
            Operation(
                method="GET",
                path=secret,
                handler=Secrets.get,
                name="getSecret",
                tag="secrets",
                summary="One secret, without its value.",
                right="secrets.read",
                editable=True,
                answers={200: saved},
                errors=("not_found",),
            ),
            Operation(
                method="PUT",
                path=secret,
                handler=Secrets.put,
                name="setSecret",
                tag="secrets",
                summary="Set a secret, or give it another value.",
                description="The value is kept sealed and never shown again. Where it is needed, write `secret:NAME`. "
                "From now on it is taken out of everything that runs say; `masked` is false where it is too short for "
                "that.",
                right="secrets.write",
                body=SaveSecret,
                body_example={"value": "ghp_0123456789abcdef"},
                editable=True,
                answers={
                    200: saved,
                    201: Answer(
                        summary="The secret is new.",
                        links=leads_to("secret_name", getSecret="Read what is known of it.", deleteSecret="Forget it."),
                        schema=_SECRET,
                        example={**_EXAMPLE, "masked": True},
                    ),
                },
                errors=("conflict", "precondition_failed"),
            ),
            Operation(
                method="DELETE",
                path=secret,
                handler=Secrets.delete,
                name="deleteSecret",
                tag="secrets",
                summary="Forget a secret. What refers to it cannot work from then on.",
                right="secrets.write",
                query=(REVISION,),
                editable=True,
                answers={
                    200: Answer(
                        summary="It is gone.",
                        schema=fields(secret_name=TEXT, deleted=FLAG),
                        example={"secret_name": "GITHUB_TOKEN", "deleted": True},
                    )
                },
                errors=("not_found", "conflict", "precondition_failed"),
            ),
            Operation(
                method="POST",
                path="/api/v1/fingerprints",
                handler=Secrets.fingerprint,
                name="fingerprintValue",
                tag="secrets",
                summary="The fingerprint that a value has in the records of the workspace.",
                description="HMAC-SHA256 under a key of the workspace. Records say it instead of a value, so that one "
                "can look for a value without storing it.",
                right="audit.read",
                body=Fingerprinted,
                body_example={"value": "ghp_0123456789abcdef"},
                answers={
                    200: Answer(
                        summary="The fingerprint.",
                        schema=fields(fingerprint=TEXT),
                        example={"fingerprint": "hmac-sha256:5f…"},
                    )
                },
                errors=("conflict",),
            ),
        ]

    async def list(self, request: Request) -> Response:
        found = self._vault.all(caller_of(request).workspace)
        return self._pages.of_all(request, "secrets.list", found, lambda saved: saved.id, self._shown)

    async def get(self, request: Request) -> Response:
        saved = self._vault.get(caller_of(request).workspace, request.path_params["secret_name"])
        return revised(request, self._shown(saved), saved.revision)

    async def put(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["secret_name"]
        document = await read_body(request)
        edited = edited_revision(request, self._revision(caller.workspace, name), document)
        body = parsed(SaveSecret, document)
        with held_to_match(request):
            saved = await self._vault.set(
                caller.workspace, name, body.value, by=caller.name, edited=body.revision if edited is None else edited
            )
        shown = {**self._shown(saved), "masked": is_masked(body.value)}
        return revised(request, shown, saved.revision, status_code=201 if saved.revision == 1 else 200)

    async def delete(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["secret_name"]
        edited = edited_revision(request, self._revision(caller.workspace, name))
        with held_to_match(request):
            await self._vault.delete(caller.workspace, name, by=caller.name, edited=edited)
        return JsonAnswer({"secret_name": name, "deleted": True})

    async def fingerprint(self, request: Request) -> Response:
        body = parsed(Fingerprinted, await read_body(request))
        return JsonAnswer({"fingerprint": await self._vault.fingerprints.of(caller_of(request).workspace, body.value)})

    def _revision(self, workspace: str, name: str) -> int | None:
        found = self._vault.find(workspace, name)
        return None if found is None else found.revision

    def _shown(self, saved: Saved[SecretNote]) -> JsonObject:
        note = saved.thing
        body: JsonObject = {
            "secret_name": saved.id,
            "created_at": note.created_ms / 1000,
            "set_at": note.set_ms / 1000,
            "set_by": note.set_by,
            "readable": self._vault.is_readable(saved.workspace, saved.id),
            "revision": saved.revision,
        }
        last = self._vault.last_used_ms(saved.workspace, saved.id)
        return body if last is None else {**body, "last_used_at": last / 1000}

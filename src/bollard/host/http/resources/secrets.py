"""`/secrets`: secrets for agents and tools. No answer has a value."""

from typing import Annotated, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import FLAG, TIME
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import answer, answer_body, operation, seconds
from bollard.host.http.resources.saved_routes import ResourceRoutes, SavedResource
from bollard.host.http.revisions import edited_revision, held_to_match, revised
from bollard.host.limits import SECRET_CHARACTERS
from bollard.host.log.saved_resources import Saved
from bollard.host.secrets.vault import SECRET, SecretNote, Vault, is_masked
from bollard.protocol import Int, JsonObject, Strict

_SECRET: Final = answer_body(
    "Secret",
    {
        "secret_name": "GITHUB_TOKEN",
        "created_at": 1767225600.0,
        "set_at": 1767225600.0,
        "set_by": "user:ann",
        "readable": True,
        "revision": 1,
    },
    {"last_used_at": TIME, "masked": FLAG},
)

_Value = Annotated[str, Field(min_length=1, max_length=SECRET_CHARACTERS)]


class SaveSecret(Strict):
    """`PUT /api/v1/secrets/{secret_name}`."""

    value: _Value
    revision: Int | None = Field(default=None, ge=0, description="The edited revision.")


class Fingerprinted(Strict):
    """`POST /api/v1/fingerprints`."""

    value: _Value


_RESOURCE: Final = SavedResource(
    kind=SECRET,
    path="/api/v1/secrets",
    id="secret_name",
    names=("Secret", "Secrets"),
    save_name="setSecret",
    right="secrets",
    body=SaveSecret,
    body_example={"value": "ghp_0123456789abcdef"},
    shown=_SECRET,
    created={"masked": True},
    summaries={
        "list": "List the secrets of the workspace: names and dates, no values.",
        "get": "Show one secret, without its value.",
        "save": "Set a secret, or change its value.",
        "delete": "Delete a secret. References to it fail from then on.",
    },
    descriptions={
        "list": "A name with slashes, such as `agent/polly/key`, belongs to the resource that it names.",
        "save": "The value is sealed and never shown again. Refer to it as `secret:NAME`. From now on the host removes "
        "it from all output of runs; `masked` is false if the value is too short for that.",
    },
)


class Secrets(ResourceRoutes[SecretNote]):
    """Names, dates and uses of secrets. No answer has a value."""

    resource = _RESOURCE

    def __init__(self, vault: Vault, pages: Pages) -> None:
        super().__init__(vault, pages)
        self._vault = vault

    async def put(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["secret_name"]
        document, before = await read_body(request), self._vault.find(caller.workspace, name)
        edited = edited_revision(request, None if before is None else before.revision, document)
        body = parsed(SaveSecret, document)
        with held_to_match(request):
            saved = await self._vault.set(
                caller.workspace, name, body.value, by=caller.name, edited=body.revision if edited is None else edited
            )
        shown = {**self.show_item(saved), "masked": is_masked(body.value)}
        return revised(request, shown, saved.revision, status_code=201 if saved.revision == 1 else 200)

    @operation(
        "POST /api/v1/fingerprints",
        name="fingerprintValue",
        summary="Compute the fingerprint of a value in the records of the workspace.",
        description="HMAC-SHA256 under a key of the workspace. Records contain the fingerprint instead of the value, "
        "so that you can search for a value without storing it.",
        right="audit.read",
        body=Fingerprinted,
        body_example={"value": "ghp_0123456789abcdef"},
        answers={200: answer("The fingerprint.", fingerprint="hmac-sha256:5f…")},
        errors=("conflict",),
    )
    async def fingerprint(self, request: Request) -> Response:
        body = parsed(Fingerprinted, await read_body(request))
        return JsonAnswer({"fingerprint": await self._vault.fingerprints.of(caller_of(request).workspace, body.value)})

    def show_item(self, saved: Saved[SecretNote]) -> JsonObject:
        return _SECRET.of(
            saved.value,
            secret_name=saved.id,
            readable=self._vault.is_readable(saved.workspace, saved.id),
            revision=saved.revision,
            last_used_at=seconds(self._vault.last_used_ms(saved.workspace, saved.id)),
        )

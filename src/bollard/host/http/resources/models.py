"""`/models`: list, save, delete and test the models of a workspace. No answer has a key."""

import importlib
from typing import Final, get_args

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.clock import Clock
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import ANY, FLAG, LABEL, NUMBER, TEXT, array_of, choice, fields, named
from bollard.host.http.operations import PAGE, Answer
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import answer_body, operation
from bollard.host.http.resources.saved_routes import SavedResource, SavedRoutes, shown_as
from bollard.host.http.revisions import revised
from bollard.host.identity.caller import Caller
from bollard.host.log.saved_resources import Saved
from bollard.host.models.boundary import ModelType
from bollard.host.models.limits import KEY_CHARACTERS
from bollard.host.models.presets import Preset, presets
from bollard.host.models.registry import DEFAULT, MODEL, RegisteredModel
from bollard.host.models.source import ModelParts
from bollard.host.models.specs import SavedModel, provider_of
from bollard.protocol import JsonObject, Strict

_MODEL: Final = "/api/v1/models/{model_id}"
_AMOUNT: Final[JsonObject] = {"type": "number"}
_BODY: Final[JsonObject] = {
    "style": "openai-chat",
    "base_url": "https://api.openai.com/v1",
    "model": "gpt-4o-mini",
    "secret": "OPENAI_KEY",
    "context_window": 128_000,
    "price": {"input": 0.15, "output": 0.6, "currency": "USD"},
}
_TRIED: Final = named(
    "TriedModel",
    fields(
        {
            "words": TEXT,
            "first_token_ms": _AMOUNT,
            "usage": ANY,
            "best": NUMBER,
            "dimensions": NUMBER,
            "reason": TEXT,
            "message": TEXT,
            "hint": TEXT,
            "cause": fields(code=TEXT, details=ANY),
            "base_url": TEXT,
            "status": NUMBER,
        },
        model_id=TEXT,
        ok=FLAG,
        latency_ms=_AMOUNT,
    ),
)


_RESOURCE: Final = SavedResource(
    kind=MODEL,
    path="/api/v1/models",
    id="model_id",
    names=("Model", "Models"),
    right="models",
    body=SavedModel,
    body_example=_BODY,
    shown=shown_as(
        "Model",
        SavedModel,
        {
            "model_id": "small",
            "model_type": "llm",
            **_BODY,
            "provider": "openai",
            "origin": "saved",
            "is_default": False,
        },
        {"alias_of": TEXT},
        model_type=choice(*get_args(ModelType)),
        origin=choice("saved", "environment", "builtin"),
    ),
    summaries={"delete": "Delete a model. Agents that name it cannot call it any more."},
    descriptions={
        "list": "The list includes the models of the host's environment, and the built-in `demo`. `is_default` marks "
        "the model behind the name `default`.",
        "save": "`style` is the wire format of the endpoint, `secret` the name of the secret with its key. An agent "
        "may call the model if its configuration or its policy names it. An address that is not globally routable "
        "must be in the setting `egress_allow`. A new chat model becomes the default of its workspace if the demo "
        "model was; `default: true` chooses another one.",
    },
    links={"testModel": "Test the model."},
)


_PRESET: Final = answer_body(
    "ModelPreset",
    {
        "preset_id": "openai",
        "label": "OpenAI",
        "style": "openai-responses",
        "base_url": "https://api.openai.com/v1",
        "other_urls": [],
        "model": "gpt-4o-mini",
        "secret": "OPENAI_API_KEY",
        "note": {},
    },
    {"model": TEXT, "secret": TEXT},
    other_urls=array_of(TEXT),
    note=LABEL,
)


class TryModel(Strict):
    """`POST /api/v1/models/test`: an unsaved model."""

    model: JsonObject = Field(description="The body of `PUT /api/v1/models/{model_id}`.")
    key: str | None = Field(
        default=None, min_length=1, max_length=KEY_CHARACTERS, description="The key of the provider. It is not stored."
    )


class Models(SavedRoutes[RegisteredModel]):
    """The models of a workspace, with those of the host."""

    resource = _RESOURCE

    def __init__(self, models: ModelParts, pages: Pages, clock: Clock) -> None:
        self._registry = models.book
        self._gateway = models.gateway
        self._pages = pages
        self._clock = clock

    def all(self, caller: Caller) -> list[Saved[RegisteredModel]]:
        return [_saved(caller, model) for model in self._registry.all(caller.workspace)]

    def find(self, caller: Caller, resource_id: str) -> Saved[RegisteredModel] | None:
        found = self._registry.find(caller.workspace, resource_id)
        return None if found is None else _saved(caller, found)

    def show_item(self, saved: Saved[RegisteredModel]) -> JsonObject:
        model, missing = saved.value, self._registry.missing_default(saved.workspace)
        shown: JsonObject = {
            **model.spec.to_wire(),
            "provider": provider_of(model.spec),
            "origin": model.origin,
            "is_default": missing is None
            and model.model_id in (DEFAULT, self._registry.default(saved.workspace).model_id),
            "revision": model.revision,
        }
        return shown if model.alias_of is None else {**shown, "alias_of": model.alias_of}

    def response(self, request: Request, saved: Saved[RegisteredModel], body: JsonObject) -> Response:
        # The alias has no revision of its own: the model behind it can change without one.
        return revised(request, body, 0 if saved.value.alias_of is not None else saved.revision)

    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[RegisteredModel], JsonObject]:
        saved = await self._registry.save(body, caller.workspace, resource_id, by=caller.name, edited=edited)
        return _saved(caller, saved), {}

    async def remove(self, caller: Caller, resource_id: str, edited: int | None) -> JsonObject:
        await self._registry.delete(caller.workspace, resource_id, by=caller.name, edited=edited)
        return {}

    @operation(
        f"POST {_MODEL}/test",
        name="testModel",
        summary="Test a model with one short question.",
        description="This is a real call, which may cost a few tokens. It counts in the workspace's budget and leaves "
        "a record `model.called`. If the call failed, `ok` is false: `reason`, `message` and `hint` say why, `cause` "
        "has the code and the details of the error, `base_url` is the address, and `status` is the HTTP status of the "
        "provider, if it answered. A chat model returns `words`, an embedding model `dimensions`, a rerank model "
        "`best`. Messages of a provider inside the own network are shown only to callers with `host.operate`.",
        right="models.write",
        answers={
            200: Answer(
                summary="The result of the test.",
                schema=_TRIED,
                example={"model_id": "small", "ok": True, "latency_ms": 412.0, "words": "Hello to you"},
            )
        },
        errors=("not_found",),
    )
    async def try_one(self, request: Request) -> Response:
        caller, model_id = caller_of(request), request.path_params["model_id"]
        # Imported by name: only a host that calls a model needs it.
        trying = importlib.import_module("bollard.host.models.trial")
        return JsonAnswer(await trying.try_model(self._gateway, self._clock, caller, model_id))

    @operation(
        "POST /api/v1/models/test",
        name="testUnsavedModel",
        summary="Test a model before it is saved.",
        description="As `testModel`, with the body of the model and a key that is not stored. Without `key`, the "
        "secret that the model names is used.",
        right="models.write",
        body=TryModel,
        body_example={"model": {"style": "demo", "model": "demo"}},
        answers={
            200: Answer(
                summary="The result of the test.",
                schema=_TRIED,
                example={"model_id": "unsaved", "ok": True, "latency_ms": 412.0, "words": "Hello to you"},
            )
        },
    )
    async def try_unsaved(self, request: Request) -> Response:
        body = parsed(TryModel, await read_body(request))
        trying = importlib.import_module("bollard.host.models.trial")
        return JsonAnswer(await trying.try_draft(self._gateway, self._clock, caller_of(request), body.model, body.key))

    @operation(
        "GET /api/v1/models/presets",
        name="listModelPresets",
        summary="List the model providers that the host knows by name.",
        description="`note` is a condition that people miss, by language.",
        right="models.read",
        query=PAGE,
        answers={200: _PRESET.page("presets")},
    )
    async def list_presets(self, request: Request) -> Response:
        known = sorted(presets().items())
        return self._pages.of_all(request, "models.presets", known, lambda each: each[0], _preset_body)


def _preset_body(named_preset: tuple[str, Preset]) -> JsonObject:
    name, preset = named_preset
    return _PRESET.of(
        preset,
        preset_id=name,
        other_urls=[*preset.other_urls],
        note={**preset.note},
        model=preset.model,
        secret=preset.secret,
    )


def _saved(caller: Caller, model: RegisteredModel) -> Saved[RegisteredModel]:
    return Saved(workspace=caller.workspace, id=model.model_id, revision=model.revision, value=model)

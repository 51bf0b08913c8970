"""`/models`: the models of a workspace. Saving them, reading them, and trying one. A key is never in an answer."""

import importlib
from typing import Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.clock import Clock
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.examples import page_example
from bollard.host.http.openapi.schemas import ANY, FLAG, NUMBER, TEXT, choice, fields, map_of, named
from bollard.host.http.operations import PAGE, Answer, Operation, leads_to, page_of
from bollard.host.http.queries import Pages
from bollard.host.http.resources.agents import REVISION, named_by_path
from bollard.host.http.revisions import edited_revision, held_to_match, revised
from bollard.host.models.boundary import ModelType, Style
from bollard.host.models.registry import DEFAULT, RegisteredModel
from bollard.host.models.source import ModelParts
from bollard.host.models.specs import SavedModel, model_to_wire, provider_of
from bollard.protocol import JsonObject

_MODEL: Final = "/api/v1/models/{model_id}"
_LIST: Final = "models.list"
_AMOUNT: Final[JsonObject] = {"type": "number"}
_SHOWN: Final = named(
    "Model",
    fields(
        {
            "secret": TEXT,
            "context_window": NUMBER,
            "max_output_tokens": NUMBER,
            "price": fields({"cached_input": _AMOUNT}, input=_AMOUNT, output=_AMOUNT, currency=TEXT),
            "requests_per_minute": NUMBER,
            "tokens_per_minute": NUMBER,
            "alias_of": TEXT,
        },
        model_id=TEXT,
        model_type=choice(*get_args(ModelType)),
        style=choice(*get_args(Style)),
        provider=TEXT,
        base_url=TEXT,
        model=TEXT,
        headers=map_of(TEXT),
        vision=FLAG,
        extra_args=ANY,
        connect_s=_AMOUNT,
        first_token_s=_AMOUNT,
        idle_s=_AMOUNT,
        tries=NUMBER,
        at_once=NUMBER,
        origin=choice("saved", "environment", "builtin"),
        is_default=FLAG,
        revision=NUMBER,
    ),
)
_BODY: Final[JsonObject] = {
    "style": "openai-chat",
    "base_url": "https://api.openai.com/v1",
    "model": "gpt-4o-mini",
    "secret": "OPENAI_KEY",
    "context_window": 128_000,
    "price": {"input": 0.15, "output": 0.6, "currency": "USD"},
}
_EXAMPLE: Final[JsonObject] = {
    "model_id": "small",
    "model_type": "llm",
    "provider": "openai",
    **_BODY,
    "headers": {},
    "vision": False,
    "extra_args": {},
    "connect_s": 10.0,
    "first_token_s": 60.0,
    "idle_s": 60.0,
    "tries": 3,
    "at_once": 16,
    "origin": "saved",
    "is_default": False,
    "revision": 1,
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
        },
        model_id=TEXT,
        ok=FLAG,
        latency_ms=_AMOUNT,
    ),
)


class Models:
    """Models of a workspace, with those that everybody has."""

    def __init__(self, models: ModelParts, pages: Pages, clock: Clock) -> None:
        self._book = models.book
        self._gateway = models.gateway
        self._pages = pages
        self._clock = clock

    @staticmethod
    def operations() -> list[Operation]:
        whole = Answer(summary="The model, without its key.", schema=_SHOWN, example=_EXAMPLE)
        return [
            Operation(
                method="GET",
                path="/api/v1/models",
                handler=Models.list,
                name="listModels",
                tag="models",
                summary="The models of the workspace.",
                description="With those that the environment of the host names, and the built-in `demo`. `is_default` "
                "says which one agents get that name `default`.",
                right="models.read",
                query=PAGE,
                answers={
                    200: Answer(summary="A page of models.", schema=page_of(_SHOWN), example=page_example(_EXAMPLE))
                },
            ),
            Operation(
                method="GET",
                path=_MODEL,
                handler=Models.get,
                name="getModel",
                tag="models",
                summary="One model.",
                description="`default` is the one that it stands for.",
                right="models.read",
                editable=True,
                answers={200: whole},
                errors=("not_found",),
            ),
            _try(),
            Operation(
                method="PUT",
                path=_MODEL,
                handler=Models.put,
                name="saveModel",
                tag="models",
                summary="Save a model, or a new revision of one.",
                description="`style` says which format its endpoint speaks, `secret` which secret holds its key. An "
                "agent may ask it once its configuration or its policy names it. An address that is not globally "
                "routable must be in the setting `egress_allow`.",
                right="models.write",
                body=SavedModel,
                body_example=_BODY,
                editable=True,
                answers={
                    200: whole,
                    201: Answer(
                        summary="The model is new.",
                        links=leads_to(
                            "model_id", getModel="Read it again.", testModel="Try it.", deleteModel="Forget it."
                        ),
                        schema=_SHOWN,
                        example=_EXAMPLE,
                    ),
                },
                errors=("conflict", "precondition_failed"),
            ),
            _delete(),
        ]

    async def list(self, request: Request) -> Response:
        workspace = caller_of(request).workspace
        found = self._book.all(workspace)
        return self._pages.of_all(
            request, _LIST, found, lambda known: known.model_id, lambda known: self._shown(workspace, known)
        )

    async def get(self, request: Request) -> Response:
        workspace = caller_of(request).workspace
        known = self._book.get(workspace, request.path_params["model_id"])
        # The alias has no revision of its own: whoever has seen it may not have seen what it stands for now.
        revision = 0 if known.alias_of is not None else known.revision
        return revised(request, self._shown(workspace, known), revision)

    async def put(self, request: Request) -> Response:
        caller, model_id = caller_of(request), request.path_params["model_id"]
        body = named_by_path(await read_body(request), "model_id", model_id)
        before = self._book.find(caller.workspace, model_id)
        edited = edited_revision(request, None if before is None else before.revision, body)
        if edited is None and isinstance(body.get("revision"), int):
            edited = parsed(SavedModel, body).revision
        with held_to_match(request):
            saved = await self._book.save(body, caller.workspace, model_id, by=caller.name, edited=edited)
        shown = self._shown(caller.workspace, saved)
        return revised(request, shown, saved.revision, status_code=201 if saved.revision == 1 else 200)

    async def try_one(self, request: Request) -> Response:
        caller, model_id = caller_of(request), request.path_params["model_id"]
        # By name, because only a host that asks a model needs it.
        trying = importlib.import_module("bollard.host.models.trial")
        return JsonAnswer(await trying.try_model(self._gateway, self._clock, caller, model_id))

    async def delete(self, request: Request) -> Response:
        caller, model_id = caller_of(request), request.path_params["model_id"]
        edited = edited_revision(request, self._book.get(caller.workspace, model_id).revision)
        with held_to_match(request):
            await self._book.delete(caller.workspace, model_id, by=caller.name, edited=edited)
        return JsonAnswer({"model_id": model_id, "deleted": True})

    def _shown(self, workspace: str, known: RegisteredModel) -> JsonObject:
        shown: JsonObject = {
            **model_to_wire(known.spec),
            "provider": provider_of(known.spec),
            "origin": known.origin,
            "is_default": known.model_id in (DEFAULT, self._book.default(workspace).model_id),
            "revision": known.revision,
        }
        return shown if known.alias_of is None else {**shown, "alias_of": known.alias_of}


def _try() -> Operation:
    return Operation(
        method="POST",
        path=f"{_MODEL}/test",
        handler=Models.try_one,
        name="testModel",
        tag="models",
        summary="Ask a model one tiny question, and say what came of it.",
        description="A real call, which may cost a few tokens: it counts in the workspace's budget and leaves "
        "`model.called` in its log. `ok` is false where it failed: `reason`, `message` and `hint` say why. One that "
        "talks has `words`, one that embeds `dimensions`, one that ranks `best`. What a provider inside said is shown "
        "to callers with `host.operate` alone.",
        right="models.write",
        answers={
            200: Answer(
                summary="What came of it.",
                schema=_TRIED,
                example={"model_id": "small", "ok": True, "latency_ms": 412.0, "words": "Hello to you"},
            )
        },
        errors=("not_found",),
    )


def _delete() -> Operation:
    return Operation(
        method="DELETE",
        path=_MODEL,
        handler=Models.delete,
        name="deleteModel",
        tag="models",
        summary="Forget a model. Agents that name it cannot ask it from then on.",
        right="models.write",
        query=(REVISION,),
        editable=True,
        answers={
            200: Answer(
                summary="It is gone.",
                schema=fields(model_id=TEXT, deleted=FLAG),
                example={"model_id": "small", "deleted": True},
            )
        },
        errors=("not_found", "conflict", "precondition_failed"),
    )

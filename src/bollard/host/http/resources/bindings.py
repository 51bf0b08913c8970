"""`/bindings`: which agent gets which events."""

from typing import Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.agents.agent_repository import AgentRepository
from bollard.host.agents.binding import LEVELS, Binding, SavedBinding, binding_to_wire
from bollard.host.agents.routing import BindingRegistry
from bollard.host.errors import NotFound
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.openapi.examples import BINDING_EXAMPLE, page_example
from bollard.host.http.openapi.schemas import FLAG, NUMBER, TEXT, array_of, fields, named
from bollard.host.http.operations import PAGE, Answer, Operation, leads_to, page_of
from bollard.host.http.queries import Pages
from bollard.host.http.resources.agents import REVISION, named_by_path
from bollard.host.http.revisions import edited_revision, held_to_match, revised, with_revision
from bollard.protocol import Int, JsonObject

_PARTS: Final[JsonObject] = {
    "scope": fields(dict.fromkeys(LEVELS, TEXT)),
    "filters": array_of(fields(field=TEXT, values=array_of(TEXT))),
    "priority": NUMBER,
    "enabled": FLAG,
}
_BINDING: Final = named("Binding", fields(binding_id=TEXT, agent_id=TEXT, revision=NUMBER, **_PARTS))


class SaveBinding(SavedBinding):
    """`PUT /api/v1/bindings/{binding_id}`."""

    revision: Int | None = Field(default=None, ge=0, description="The revision that was edited.")


class Bindings:
    """Bindings as people save them."""

    def __init__(self, book: BindingRegistry, repository: AgentRepository, pages: Pages) -> None:
        self._book = book
        self._repository = repository
        self._pages = pages

    @staticmethod
    def operations() -> list[Operation]:
        bindings, binding = "/api/v1/bindings", "/api/v1/bindings/{binding_id}"
        saved = Answer(summary="The binding as it is now.", schema=_BINDING, example=BINDING_EXAMPLE)
        return [
            Operation(
                method="GET",
                path=bindings,
                handler=Bindings.list,
                name="listBindings",
                tag="bindings",
                summary="The bindings of the workspace.",
                right="bindings.read",
                query=PAGE,
                answers={
                    200: Answer(
                        summary="A page of bindings.", schema=page_of(_BINDING), example=page_example(BINDING_EXAMPLE)
                    )
                },
            ),
            Operation(
                method="GET",
                path=binding,
                handler=Bindings.get,
                name="getBinding",
                tag="bindings",
                summary="One binding.",
                right="bindings.read",
                editable=True,
                answers={200: saved},
                errors=("not_found",),
            ),
            Operation(
                method="PUT",
                path=binding,
                handler=Bindings.put,
                name="saveBinding",
                tag="bindings",
                summary="Save a binding, or a new revision of one.",
                description="Of several that match, the more specific scope goes first, then the one with more "
                "filters, then the higher priority. Two that match equally are refused.",
                right="bindings.write",
                body=SaveBinding,
                body_example={
                    "agent_id": "polly",
                    "scope": {"channel": "ci"},
                    "filters": [{"field": "event_type", "values": ["build.failed"]}],
                },
                editable=True,
                answers={
                    200: saved,
                    201: Answer(
                        summary="The binding is new.",
                        links=leads_to("binding_id", getBinding="Read it again.", deleteBinding="Forget it."),
                        schema=_BINDING,
                        example=BINDING_EXAMPLE,
                    ),
                },
                errors=("conflict", "precondition_failed"),
            ),
            Operation(
                method="DELETE",
                path=binding,
                handler=Bindings.delete,
                name="deleteBinding",
                tag="bindings",
                summary="Forget a binding.",
                right="bindings.write",
                query=(REVISION,),
                editable=True,
                answers={
                    200: Answer(
                        summary="It is gone.",
                        schema=fields(binding_id=TEXT, deleted=FLAG),
                        example={"binding_id": "builds", "deleted": True},
                    )
                },
                errors=("not_found", "conflict", "precondition_failed"),
            ),
        ]

    async def list(self, request: Request) -> Response:
        found = self._book.all(caller_of(request).workspace)
        return self._pages.of_all(request, "bindings.list", found, lambda each: each.binding_id, self._shown)

    async def get(self, request: Request) -> Response:
        binding = self._book.get(request.path_params["binding_id"], caller_of(request).workspace)
        if binding is None:
            raise NotFound("there is no such binding", hint="`bollard bindings` lists them")
        return revised(request, self._shown(binding), self._revision(binding.binding_id, binding.workspace) or 0)

    async def put(self, request: Request) -> Response:
        caller, binding_id = caller_of(request), request.path_params["binding_id"]
        body = named_by_path(await read_body(request), "binding_id", binding_id)
        body = with_revision(body, edited_revision(request, self._revision(binding_id, caller.workspace), body))
        with held_to_match(request):
            binding = await self._repository.save_binding(body, caller.workspace, caller.name)
        revision = self._revision(binding_id, caller.workspace) or 0
        return revised(request, self._shown(binding), revision, status_code=201 if revision == 1 else 200)

    async def delete(self, request: Request) -> Response:
        caller, binding_id = caller_of(request), request.path_params["binding_id"]
        revision = edited_revision(request, self._revision(binding_id, caller.workspace))
        with held_to_match(request):
            await self._repository.delete_binding(binding_id, caller.workspace, caller.name, revision)
        return JsonAnswer({"binding_id": binding_id, "deleted": True})

    def _revision(self, binding_id: str, workspace: str) -> int | None:
        return self._repository.binding_revision(binding_id, workspace) or None

    def _shown(self, binding: Binding) -> JsonObject:
        return {**binding_to_wire(binding), "revision": self._revision(binding.binding_id, binding.workspace) or 0}

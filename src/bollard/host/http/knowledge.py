"""`/knowledge`: the knowledge bases of a workspace, saved like everything that people edit, and asked to try them."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.http.agents import REVISION, named_by_path
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.callers import caller_of
from bollard.host.http.examples import page_example
from bollard.host.http.knowledge_shapes import BASE, BASE_EXAMPLE, CHUNK_EXAMPLE, AskKnowledge
from bollard.host.http.operations import PAGE, Answer, Operation, leads_to, page_of
from bollard.host.http.pages import Pages
from bollard.host.http.requests import parsed
from bollard.host.http.revisions import edited_revision, held_to_match, revised
from bollard.host.http.schemas import FLAG, TEXT, fields
from bollard.host.knowledge.bases import KnowledgeBase, SavedKnowledgeBase, base_to_wire
from bollard.host.knowledge.library import Library
from bollard.host.knowledge.retrieving import checked_question
from bollard.host.log.shelf import Saved
from bollard.protocol import JsonObject, KnowledgeResult

__all__ = ["BASE_PATH", "Knowledge"]

BASE_PATH: Final = "/api/v1/knowledge/{kb_id}"
_LIST: Final = "knowledge.list"
_BODY: Final[JsonObject] = {"name": "Handbook", "description": "How we work: leave, travel, equipment."}


class Knowledge:
    """Knowledge bases of a workspace."""

    def __init__(self, library: Library, pages: Pages) -> None:
        self._library = library
        self._pages = pages

    @staticmethod
    def operations() -> list[Operation]:
        saved = Answer(summary="The base as it is now.", schema=BASE, example=BASE_EXAMPLE)
        made = Answer(
            summary="The base is new.",
            links=leads_to("kb_id", getKnowledgeBase="Read it again.", listKnowledgeDocuments="See what is in it."),
            schema=BASE,
            example=BASE_EXAMPLE,
        )
        return [
            Operation(
                method="GET",
                path="/api/v1/knowledge",
                handler=Knowledge.list,
                name="listKnowledgeBases",
                tag="knowledge",
                summary="The knowledge bases of the workspace.",
                right="knowledge.read",
                query=PAGE,
                answers={
                    200: Answer(summary="A page of bases.", schema=page_of(BASE), example=page_example(BASE_EXAMPLE))
                },
            ),
            Operation(
                method="GET",
                path=BASE_PATH,
                handler=Knowledge.get,
                name="getKnowledgeBase",
                tag="knowledge",
                summary="One knowledge base.",
                right="knowledge.read",
                editable=True,
                answers={200: saved},
                errors=("not_found",),
            ),
            Operation(
                method="PUT",
                path=BASE_PATH,
                handler=Knowledge.put,
                name="saveKnowledgeBase",
                tag="knowledge",
                summary="Save a knowledge base, or a new revision of one.",
                description="Nobody gets it by that: an agent's configuration or policy names it. Where `embedding`, "
                "`chunk_tokens` or `overlap_tokens` change, its documents are indexed anew in the background.",
                right="knowledge.write",
                body=SavedKnowledgeBase,
                body_example=_BODY,
                editable=True,
                answers={200: saved, 201: made},
                errors=("conflict", "precondition_failed"),
            ),
            *_deeds(),
        ]

    async def list(self, request: Request) -> Response:
        found = self._library.book.all(caller_of(request).workspace)
        return self._pages.of_all(request, _LIST, found, lambda saved: saved.id, _shown)

    async def get(self, request: Request) -> Response:
        saved = self._library.book.get(caller_of(request).workspace, request.path_params["kb_id"])
        return revised(request, _shown(saved), saved.revision)

    async def put(self, request: Request) -> Response:
        caller, kb_id = caller_of(request), request.path_params["kb_id"]
        body = named_by_path(await read_body(request), "kb_id", kb_id)
        before = self._library.book.find(caller.workspace, kb_id)
        edited = edited_revision(request, None if before is None else before.revision, body)
        if edited is None and isinstance(body.get("revision"), int):
            edited = parsed(SavedKnowledgeBase, body).revision
        with held_to_match(request):
            saved = await self._library.save(body, caller.workspace, kb_id, by=caller.name, edited=edited)
        return revised(request, _shown(saved), saved.revision, status_code=201 if saved.revision == 1 else 200)

    async def delete(self, request: Request) -> Response:
        caller, kb_id = caller_of(request), request.path_params["kb_id"]
        edited = edited_revision(request, self._library.book.get(caller.workspace, kb_id).revision)
        with held_to_match(request):
            erased = await self._library.delete(caller.workspace, kb_id, by=caller.name, edited=edited)
        return JsonAnswer({"kb_id": kb_id, "deleted": True, "erased": erased})

    async def retrieve(self, request: Request) -> Response:
        workspace, kb_id = caller_of(request).workspace, request.path_params["kb_id"]
        self._library.book.get(workspace, kb_id)
        asked = parsed(AskKnowledge, await read_body(request))
        question = checked_question(asked.query, asked.top_k, asked.filters)
        chunks = await self._library.retrieve(workspace, kb_id, question)
        return JsonAnswer(KnowledgeResult(chunks=tuple(chunks)).to_wire())

    async def reindex(self, request: Request) -> Response:
        workspace, kb_id = caller_of(request).workspace, request.path_params["kb_id"]
        await self._library.index_anew(workspace, kb_id)
        return JsonAnswer({"kb_id": kb_id}, status_code=202)


def _shown(saved: Saved[KnowledgeBase]) -> JsonObject:
    return {**base_to_wire(saved.thing), "revision": saved.revision}


def _deeds() -> list[Operation]:
    return [
        Operation(
            method="DELETE",
            path=BASE_PATH,
            handler=Knowledge.delete,
            name="deleteKnowledgeBase",
            tag="knowledge",
            summary="Delete a knowledge base with every document of it.",
            description="`erased` says whether all of it is off the disk; what is not is erased as soon as it can be.",
            right="knowledge.write",
            query=(REVISION,),
            editable=True,
            answers={
                200: Answer(
                    summary="It is gone.",
                    schema=fields(kb_id=TEXT, deleted=FLAG, erased=FLAG),
                    example={"kb_id": "handbook", "deleted": True, "erased": True},
                )
            },
            errors=("not_found", "conflict", "precondition_failed"),
        ),
        Operation(
            method="POST",
            path=f"{BASE_PATH}/retrieve",
            handler=Knowledge.retrieve,
            name="askKnowledgeBase",
            tag="knowledge",
            summary="What a base says about something: passages, best first, each with where it comes from.",
            description="The same that `knowledge.retrieve` answers to a run.",
            right="knowledge.ask",
            body=AskKnowledge,
            body_example={"query": "How many days of leave do I have?", "top_k": 3},
            answers={
                200: Answer(summary="The passages.", schema=KnowledgeResult, example={"chunks": [CHUNK_EXAMPLE]}),
            },
            errors=("not_found", "knowledge_unavailable"),
        ),
        Operation(
            method="POST",
            path=f"{BASE_PATH}/reindex",
            handler=Knowledge.reindex,
            name="reindexKnowledgeBase",
            tag="knowledge",
            summary="Index every document of a base anew, in the background.",
            right="knowledge.write",
            answers={
                202: Answer(summary="It has begun.", schema=fields(kb_id=TEXT), example={"kb_id": "handbook"}),
            },
            errors=("not_found", "knowledge_unavailable"),
        ),
    ]

"""`knowledge.list` and `knowledge.retrieve`: the knowledge bases that a run was granted, and what they say."""

from bollard.host.errors import NotFound
from bollard.host.grants.check import NOT_FOUND, Denied, check
from bollard.host.knowledge.library import Library
from bollard.host.knowledge.retrieving import checked_question
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runs.live import LiveRun
from bollard.protocol import (
    KnowledgeBaseList,
    KnowledgeBaseResource,
    KnowledgeListQuery,
    KnowledgeResult,
    KnowledgeRetrieve,
)

__all__ = ["Knowledge"]

_LIST = "knowledge.list"
_RETRIEVE = "knowledge.retrieve"


class Knowledge:
    """Asks knowledge bases for runs. That the grant lists the base was checked before."""

    def __init__(self, library: Library) -> None:
        self._library = library

    async def list(self, run: LiveRun, params: KnowledgeListQuery) -> KnowledgeBaseList:
        """Those that were granted, are still there and were not taken away since."""
        del params
        found = [
            base.model_copy(update={"operations": left})
            for base in _granted(run)
            if self._library.book.find(run.facts.workspace, base.kb_id) is not None
            and (left := tuple(each for each in base.operations if _may(run, each, base.kb_id)))
        ]
        return KnowledgeBaseList(knowledge_bases=tuple(found))

    async def retrieve(self, run: LiveRun, params: KnowledgeRetrieve) -> KnowledgeResult:
        question = checked_question(params.query, params.top_k, params.filters)
        workspace = run.facts.workspace
        saved = self._library.book.find(workspace, params.kb_id)
        if saved is None:
            raise _gone()
        run.take_in(saved.thing.brings.bits)  # before anything of it leaves, whatever comes of the question
        try:
            chunks = await self._library.retrieve(workspace, params.kb_id, question)
        except NotFound:  # deleted meanwhile: looks as never granted
            raise _gone() from None
        return KnowledgeResult(chunks=tuple(chunks))


def _granted(run: LiveRun) -> "list[KnowledgeBaseResource]":
    shown = run.grant.access.resources.get("knowledge_bases")
    return [KnowledgeBaseResource.from_wire(each) for each in shown] if isinstance(shown, list) else []


def _may(run: LiveRun, operation: str, kb_id: str) -> bool:
    """Whether it may still be done with this base."""
    if operation == "retrieve":
        return not isinstance(check(run.grant, run.revoked, _RETRIEVE, kb_id), Denied)
    return not run.revoked.takes("knowledge_bases.list", "knowledge_bases", kb_id)


def _gone() -> ApiRefused:
    denied = NOT_FOUND["knowledge_bases"]
    return ApiRefused(denied.code, denied.sentence)

"""`knowledge.list` and `knowledge.retrieve` of the run API."""

from collections.abc import Sequence

from bollard.host.errors import NotFound
from bollard.host.grants.check import NOT_FOUND, Denied, check
from bollard.host.knowledge.boundary import checked_question
from bollard.host.knowledge.library import Library, Rerank
from bollard.host.run_api.models import Models
from bollard.host.run_api.refusal import ApiRefused
from bollard.host.runs.live_run import LiveRun
from bollard.protocol import (
    KnowledgeBaseList,
    KnowledgeBaseResource,
    KnowledgeListQuery,
    KnowledgeResult,
    KnowledgeRetrieve,
    ModelsRerank,
    RerankScore,
)

_LIST = "knowledge.list"
_RETRIEVE = "knowledge.retrieve"


class Knowledge:
    """Queries knowledge bases for runs. The gate has already checked that the grant lists the base."""

    def __init__(self, library: Library, models: Models | None = None) -> None:
        """`models` reranks the results of bases with a rerank model."""
        self._library = library
        self._models = models

    async def list(self, run: LiveRun, params: KnowledgeListQuery) -> KnowledgeBaseList:
        """The granted bases that still exist and were not revoked."""
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
        run.take_in(saved.thing.brings.bits)  # before any content leaves the base, even if the query fails
        try:
            chunks = await self._library.retrieve(workspace, params.kb_id, question, self._rerank_for(run))
        except NotFound:  # deleted meanwhile: looks the same as not granted
            raise _gone() from None
        return KnowledgeResult(chunks=tuple(chunks))

    def _rerank_for(self, run: LiveRun) -> Rerank | None:
        """The operator of the base chooses the rerank model; the run pays for it."""
        models = self._models
        if models is None:
            return None

        async def rerank(workspace: str, model_id: str, query: str, texts: Sequence[str]) -> Sequence[RerankScore]:
            del workspace  # the run's own
            asked = ModelsRerank(model_id=model_id, query=query, documents=tuple(texts))
            return (await models.rerank(run, asked)).results

        return rerank


def _granted(run: LiveRun) -> "list[KnowledgeBaseResource]":
    shown = run.grant.access.resources.get("knowledge_bases")
    return [KnowledgeBaseResource.from_wire(each) for each in shown] if isinstance(shown, list) else []


def _may(run: LiveRun, operation: str, kb_id: str) -> bool:
    """Whether the run may still use this operation on the base."""
    if operation == "retrieve":
        return not isinstance(check(run.grant, run.revoked, _RETRIEVE, kb_id), Denied)
    return not run.revoked.takes("knowledge_bases.list", "knowledge_bases", kb_id)


def _gone() -> ApiRefused:
    denied = NOT_FOUND["knowledge_bases"]
    return ApiRefused(denied.code, denied.sentence)

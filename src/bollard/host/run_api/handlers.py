"""The handlers of the run API by action, and the small ones themselves: `host.*`, `events.*` and `knowledge.*`.
Handlers check nothing: the gate has checked the call."""

from collections.abc import Sequence

from bollard.host.clock import Clock
from bollard.host.errors import NotFound
from bollard.host.grants.check import NOT_FOUND, Denied, check
from bollard.host.knowledge.boundary import checked_question
from bollard.host.knowledge.library import Library, Rerank
from bollard.host.run_api.artifacts import Artifacts, Uploads
from bollard.host.run_api.events import Events
from bollard.host.run_api.gate import Handler
from bollard.host.run_api.history import History
from bollard.host.run_api.models import Models
from bollard.host.run_api.pages import Cursors
from bollard.host.run_api.reach import ArtifactReach, FetchContent, as_stored
from bollard.host.run_api.refusal import ApiRefused
from bollard.host.run_api.storage import State, Storage
from bollard.host.run_api.tools import Tools
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.artifact_terms import ArtifactTerms
from bollard.host.store.blobs import BlobStore
from bollard.host.store.store import Store
from bollard.protocol import (
    AgentPrompt,
    HostInfo,
    HostInfoQuery,
    HostPrompt,
    JsonObject,
    KnowledgeBaseList,
    KnowledgeBaseResource,
    KnowledgeListQuery,
    KnowledgeResult,
    KnowledgeRetrieve,
    ModelsRerank,
    RerankScore,
    limits,
)
from bollard.trust import sha256_of


class HostFacts:
    """`host.info`: the version of the host and the limits of the run. Open to every run."""

    def __init__(self, host_version: str) -> None:
        self._host_version = host_version

    async def info(self, run: LiveRun, params: HostInfoQuery) -> HostInfo:
        del params
        granted = run.grant.limits
        values: JsonObject = {
            "calls_in_flight": granted.calls_in_flight,
            "calls_per_s": granted.calls_per_s,
            "call_bytes": granted.payload_bytes,
            "page_items": limits.PAGE_ITEMS,
            "page_bytes": limits.PAGE_BYTES,
            "search_top_k": limits.SEARCH_TOP_K,
            "read_bytes": limits.READ_BYTES,
            "result_bytes": limits.RESULT_BYTES,
            "state_value_bytes": limits.STATE_VALUE_BYTES,
            "state_scope_bytes": limits.STATE_SCOPE_BYTES,
            "run_output_mib": run.output_mib,
        }
        if granted.calls_per_run is not None:
            values["calls_per_run"] = granted.calls_per_run
        return HostInfo(host_version=self._host_version, protocol=limits.PROTOCOL_VERSION, limits=values)


async def prompt(run: LiveRun, params: HostPrompt) -> AgentPrompt:
    """`host.prompt`: a prompt of the agent's configuration, as the run began with it. Open to every run, because the
    run has the whole configuration."""
    name = params.name or next(iter(run.prompts), None)
    if name is None or name not in run.prompts:
        raise ApiRefused("not_found", "the agent has no such prompt")
    text = run.prompts[name]
    return AgentPrompt(name=name, text=text, sha256=sha256_of(text.encode()))


def data_handlers(
    store: Store,
    blobs: BlobStore,
    clock: Clock,
    terms: ArtifactTerms,
    cursor_secret: bytes,
    fetch: FetchContent = as_stored,
) -> dict[str, Handler]:
    """The actions that read and write stored data."""
    cursors, reach = Cursors(cursor_secret), ArtifactReach(store, clock)
    history, events = History(store, cursors, reach.find), Events(store, cursors, reach.find)
    artifacts, uploads = Artifacts(reach.find, blobs, fetch), Uploads(blobs, reach.find, terms=terms)
    state, storage = State(store, clock, cursors), Storage(store, blobs, cursors)
    return {
        "history.page": history.page,
        "history.search": history.search,
        "events.get": events.get,
        "events.page": events.page,
        "artifacts.metadata": artifacts.metadata,
        "artifacts.read": artifacts.read,
        "artifacts.begin": uploads.begin,
        "artifacts.append": uploads.append,
        "artifacts.finish": uploads.finish,
        "state.get": state.get,
        "state.set": state.set,
        "state.delete": state.delete,
        "state.list": state.keys,
        "storage.get": storage.get,
        "storage.set": storage.set,
        "storage.delete": storage.delete,
        "storage.list": storage.keys,
        "tools.detail": Tools().detail,
        "host.prompt": prompt,
    }


def knowledge_handlers(library: Library, models: Models | None) -> dict[str, Handler]:
    knowledge = Knowledge(library, models)
    return {"knowledge.list": knowledge.list, "knowledge.retrieve": knowledge.retrieve}


def model_handlers(models: Models) -> dict[str, Handler]:
    """All actions of models except the streamed `models.stream`."""
    return {"models.invoke": models.invoke, "models.rerank": models.rerank, "models.embed": models.embed}


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
        run.take_in(saved.value.brings.bits)  # before any content leaves the base, even if the query fails
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
    return ApiRefused.of(denied)

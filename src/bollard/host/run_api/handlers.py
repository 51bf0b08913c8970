"""The handlers of the run API by action, and the small ones themselves: `host.info`, `events.*` and `knowledge.*`.
Handlers check nothing: the gate has checked the call."""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import NotFound
from bollard.host.grants.check import NOT_FOUND, Denied, check
from bollard.host.knowledge.boundary import checked_question
from bollard.host.knowledge.library import Library, Rerank
from bollard.host.run_api.artifacts import Artifacts, Uploads
from bollard.host.run_api.gate import Handler
from bollard.host.run_api.history import History
from bollard.host.run_api.models import Models
from bollard.host.run_api.pages import Cursors, filled
from bollard.host.run_api.reach import ArtifactReach, FetchContent, FindArtifact, FlowTracker, as_stored, reaches
from bollard.host.run_api.refusal import ApiRefused
from bollard.host.run_api.storage import State, Storage
from bollard.host.run_api.tools import Tools
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.artifact_terms import ArtifactTerms
from bollard.host.store.blobs import BlobStore
from bollard.host.store.keys import place_of
from bollard.host.store.rows import EventRow
from bollard.host.store.store import Store
from bollard.protocol import (
    AgentEventRecord,
    EventPage,
    EventsGet,
    EventsPage,
    HostInfo,
    HostInfoQuery,
    JsonObject,
    KnowledgeBaseList,
    KnowledgeBaseResource,
    KnowledgeListQuery,
    KnowledgeResult,
    KnowledgeRetrieve,
    ModelsRerank,
    RawRef,
    RerankScore,
    limits,
)


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
    }


def knowledge_handlers(library: Library, models: Models | None) -> dict[str, Handler]:
    knowledge = Knowledge(library, models)
    return {"knowledge.list": knowledge.list, "knowledge.retrieve": knowledge.retrieve}


def model_handlers(models: Models) -> dict[str, Handler]:
    """All actions of models except the streamed `models.stream`."""
    return {"models.invoke": models.invoke, "models.rerank": models.rerank, "models.embed": models.embed}


_PAGE: Final = "events.page"


class _Raw(msgspec.Struct):
    artifact_id: str


class _Received(msgspec.Struct):
    """The part of `event.received` that is used here."""

    raw: _Raw | None = None


_received: Final = msgspec.json.Decoder(_Received).decode


class Events:
    """Reads events for runs. The full payload of a platform is an artifact."""

    def __init__(self, store: Store, cursors: Cursors, find_artifact: FindArtifact) -> None:
        self._store = store
        self._cursors = cursors
        self._find_artifact = find_artifact

    async def get(self, run: LiveRun, params: EventsGet) -> AgentEventRecord:
        found = await asyncio.to_thread(self._get, run, params.event_id)
        if found is None:
            raise ApiRefused("not_found", "this run has no such event")
        row, item = found
        run.take_in(row.flow)
        return item

    def _get(self, run: LiveRun, event_id: str) -> tuple[EventRow, AgentEventRecord] | None:
        row = self._store.event(run.facts.workspace, event_id)
        if row is None or not (row.event_id == run.facts.event_id or reaches(run, row)):
            return None
        return row, self._item(run, row)

    async def page(self, run: LiveRun, params: EventsPage) -> EventPage:
        """Items are oldest first. The next page has older ones."""
        before = self._cursors.open(_PAGE, run.facts.run_id, _place(run), params.before, "before")
        flow = FlowTracker()
        page = await asyncio.to_thread(self._page, run, before, params.limit, flow)
        run.take_in(flow.bits)
        return page

    def _page(self, run: LiveRun, before: int | None, limit: int, flow: FlowTracker) -> EventPage:
        def item_of(row: EventRow) -> AgentEventRecord:
            flow.by(row)
            return self._item(run, row)

        newest_first, has_more = filled(self._rows(run, before, limit + 1), item_of, limit)
        next_cursor = newest_first[-1].cursor if has_more else None
        return EventPage(items=tuple(reversed(newest_first)), next_cursor=next_cursor, has_more=has_more)

    def _rows(self, run: LiveRun, before: int | None, limit: int) -> list[EventRow]:
        facts = run.facts
        if facts.conversation:
            return self._store.events_in(facts.workspace, facts.bot, facts.conversation, facts.thread, before, limit)
        own = self._store.event(facts.workspace, facts.event_id)
        return [own] if own is not None and (before is None or own.record_id < before) else []

    def _cursor(self, run: LiveRun, record_id: int) -> str:
        return self._cursors.seal(_PAGE, run.facts.run_id, _place(run), record_id)

    def _item(self, run: LiveRun, row: EventRow) -> AgentEventRecord:
        return AgentEventRecord(
            event_id=row.event_id,
            event_type=row.type,
            event_time=None if row.event_ms is None else row.event_ms / 1000,
            source=row.source,
            bot_id=row.bot,
            workspace_id=row.workspace,
            conversation_id=row.conversation,
            thread_id=row.thread,
            actor_type=row.actor_type,
            actor_id=row.actor_id,
            actor_name=row.actor_name,
            subject_type=row.subject_type,
            subject_id=row.subject_id,
            input_summary=row.summary,
            raw_ref=self._raw_ref(run, row),
            seq=row.record_id,
            cursor=self._cursor(run, row.record_id),
            created_at=row.created_ms / 1000,
            metadata=self._steering_mark(row),
        )

    def _steering_mark(self, row: EventRow) -> JsonObject:
        """How an active run claimed the message, as §9 of the protocol defines it."""
        if row.steering is None or row.run_id is None:
            return {}
        claiming = self._store.run(row.run_id)
        return {
            "steering": {
                "status": row.steering,
                "trigger_behavior": "absorbed_into_active_run",
                "claimed_by_run_id": row.run_id,
                "claimed_runner_id": None if claiming is None else claiming.runner_id,
                "claimed_at": row.created_ms / 1000,
            }
        }

    def _raw_ref(self, run: LiveRun, row: EventRow) -> RawRef | None:
        """The full payload, if the run may read it. Only the record of the event refers to it."""
        record = next(iter(self._store.records(row.record_id - 1, 1)), None)
        if record is None or record.id != row.record_id or record.data is None:
            return None
        raw = _received(record.data).raw
        found = None if raw is None else self._find_artifact(run, raw.artifact_id)
        if found is None:
            return None
        return RawRef(artifact_id=found.artifact_id, mime_type=found.mime_type, size_bytes=found.size_bytes)


def _place(run: LiveRun) -> str:
    facts = run.facts
    return place_of(facts.workspace, facts.bot, facts.conversation, facts.thread)


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
    return ApiRefused(denied.code, denied.sentence)

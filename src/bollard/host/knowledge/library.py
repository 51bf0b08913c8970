"""The knowledge bases of a host and their engine. The engine is opened on first use, and each base is created in it on
its first use, in its newest revision."""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import structlog
from msgspec.structs import replace

from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.clock import Clock
from bollard.host.errors import HostError, KnowledgeUnavailable, ToolFailed
from bollard.host.knowledge.bases import KnowledgeBaseRepository, SavedKnowledgeBase
from bollard.host.knowledge.boundary import (
    Document,
    DocumentText,
    KnowledgeEngine,
    NewDocument,
    Question,
    fitted,
    reordered,
)
from bollard.host.knowledge.incoming import UploadFolder
from bollard.host.knowledge.limits import DOCUMENTS_AT_ONCE, RERANK_CANDIDATES, RERANK_S
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.log.saved_resources import Saved
from bollard.host.reason import Why
from bollard.host.settings import Settings
from bollard.protocol import JsonObject, KnowledgeChunk, RerankScore
from bollard.wire.knowledge_frames import TABLES_FOLDER, UNFINISHED

_log = structlog.get_logger("bollard.knowledge")

OpenEngine = Callable[[], KnowledgeEngine]
"""Opens the engine. Called once, on first use."""
Rerank = Callable[[str, str, str, Sequence[str]], Awaitable[Sequence[RerankScore]]]
"""Scores texts for a question: workspace, model, question, texts. Raises `HostError`."""


class Library:
    """Manages knowledge bases and their documents, and answers questions. One per host."""

    def __init__(
        self,
        book: KnowledgeBaseRepository,
        journal: Journal,
        clock: Clock,
        open_engine: OpenEngine,
        *,
        undone: Callable[[], bool] = lambda: False,
        incoming: UploadFolder | None = None,
        rerank: Rerank | None = None,
    ) -> None:
        """`undone` tells, without the engine, whether an earlier one left unfinished work; `incoming` are restored or
        imported documents that no engine has yet."""
        self.book = book
        self._undone = undone
        self._incoming = incoming
        self._journal = journal
        self._clock = clock
        self._open_engine = open_engine
        self._engine: KnowledgeEngine | None = None
        self.rerank = rerank
        self._opened: dict[tuple[str, str], int] = {}
        """By workspace and id: the revision of the base in the engine."""
        self._opening = asyncio.Lock()
        self._indexing: dict[tuple[str, str], asyncio.Task[None]] = {}
        """Bases that are being indexed again."""
        self._resuming: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Continue erasing, indexing and importing that an earlier incarnation left unfinished, in the background."""
        if self.book.erasing or self._undone() or self._incoming:
            self._resuming = asyncio.create_task(self._resume())

    async def close(self) -> None:
        tasks = [*self._indexing.values(), *([self._resuming] if self._resuming is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    # --- bases ---

    async def save(
        self, body: JsonObject, workspace: str, kb_id: str, *, by: str, edited: int | None
    ) -> Saved[SavedKnowledgeBase]:
        """Save a base. If its chunks change, its documents are indexed again."""
        before = self.book.find(workspace, kb_id)
        saved = await self.book.save(body, workspace, kb_id, by=by, edited=edited)
        if before is not None and not saved.value.cuts_as(before.value):
            try:
                await self._ready(saved)
            except KnowledgeUnavailable:  # the base is saved; the next use opens it in the engine
                _log.warning("a changed knowledge base waits for the engine", workspace=workspace, kb=kb_id)
        return saved

    async def delete(self, workspace: str, kb_id: str, *, by: str, edited: int | None) -> bool:
        """Delete a base. Returns whether its documents are erased already; otherwise they are erased later."""
        await self.book.delete(workspace, kb_id, by=by, edited=edited)
        indexing = self._indexing.pop((workspace, kb_id), None)
        if indexing is not None:
            indexing.cancel()
        await self._erase()
        return (workspace, kb_id) not in self.book.erasing

    # --- documents ---

    async def put(self, workspace: str, kb_id: str, document: NewDocument, *, by: str) -> Document:
        saved = self.book.get(workspace, kb_id)
        made = await (await self._ready(saved)).put(workspace, kb_id, document)
        await self._note(workspace, kb_id, document.document_id, "saved", by, sha256=made.sha256, size=made.size_bytes)
        return made

    async def documents(self, workspace: str, kb_id: str, after: str, limit: int) -> Sequence[Document]:
        engine = await self._ready(self.book.get(workspace, kb_id))
        return await engine.documents(workspace, kb_id, after, limit)

    async def document(self, workspace: str, kb_id: str, document_id: str) -> Document:
        engine = await self._ready(self.book.get(workspace, kb_id))
        return await engine.document(workspace, kb_id, document_id)

    async def content(self, workspace: str, kb_id: str, document_id: str) -> bytes:
        engine = await self._ready(self.book.get(workspace, kb_id))
        return await engine.content(workspace, kb_id, document_id)

    async def drop(self, workspace: str, kb_id: str, document_id: str, *, by: str) -> None:
        engine = await self._ready(self.book.get(workspace, kb_id))
        await engine.document(workspace, kb_id, document_id)  # raises NotFound
        await engine.drop(workspace, kb_id, document_id)
        await self._note(workspace, kb_id, document_id, "deleted", by)

    async def index_anew(self, workspace: str, kb_id: str) -> None:
        """Index every document of a base again, one by one, in the background."""
        engine = await self._ready(self.book.get(workspace, kb_id))
        key = (workspace, kb_id)
        if key not in self._indexing:
            task = self._indexing[key] = asyncio.create_task(self._index(engine, workspace, kb_id))
            task.add_done_callback(lambda done: self._indexed(key, done))

    async def _index(self, engine: KnowledgeEngine, workspace: str, kb_id: str) -> None:
        after = ""
        while page := await engine.documents(workspace, kb_id, after, DOCUMENTS_AT_ONCE):
            for each in page:
                content = await engine.content(workspace, kb_id, each.document_id)
                again = NewDocument(
                    document_id=each.document_id,
                    name=each.name,
                    mime_type=each.mime_type,
                    content=content,
                    source=each.source,
                    metadata=each.metadata,
                )
                await engine.put(workspace, kb_id, again)
            after = page[-1].document_id

    def _indexed(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        if self._indexing.get(key) is task:
            del self._indexing[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("a knowledge base was not indexed again", workspace=key[0], kb=key[1], problem=str(error))

    # --- questions ---

    async def retrieve(
        self, workspace: str, kb_id: str, question: Question, rerank: Rerank | None = None
    ) -> list[KnowledgeChunk]:
        """The best chunks that fit into one answer. `rerank` replaces the workspace's own, so that another caller is
        charged. Raises `NotFound`, `KnowledgeUnavailable`."""
        saved = self.book.get(workspace, kb_id)
        engine, model = await self._ready(saved), saved.value.rerank_model
        rerank = rerank or self.rerank
        if model is None or rerank is None:
            return fitted(await engine.retrieve(workspace, kb_id, question), question.top_k)
        wider = replace(question, top_k=max(question.top_k, RERANK_CANDIDATES))
        found = await engine.retrieve(workspace, kb_id, wider)
        return fitted(await _rerank(rerank, workspace, model, question.query, found), question.top_k)

    async def extract(self, *, name: str, mime_type: str, content: bytes, offset: int, limit: int) -> DocumentText:
        """The text of a document that is in no base. Raises `KnowledgeUnavailable`, `PayloadTooLarge`."""
        return await self._needed().extract(name=name, mime_type=mime_type, content=content, offset=offset, limit=limit)

    # --- the engine ---

    async def _ready(self, saved: Saved[SavedKnowledgeBase]) -> KnowledgeEngine:
        """The engine, with this base opened in it."""
        engine = self._needed()
        key = (saved.workspace, saved.id)
        if self._opened.get(key) == saved.revision and not self.book.erasing:
            return engine
        async with self._opening:
            await self._erase_with(engine)
            if self._opened.get(key) != saved.revision:
                await engine.open_base(saved.workspace, saved.value)
                self._opened[key] = saved.revision
        return engine

    def _needed(self) -> KnowledgeEngine:
        if self._engine is None:
            self._engine = self._open_engine()
        return self._engine

    async def _resume(self) -> None:
        await self._erase()
        try:
            await self._needed().resume()
            if self._incoming is not None:
                await self._take_in(self._incoming)
        except HostError as error:
            _log.warning("unfinished work of knowledge bases waits for the next start", problem=error.message)

    async def _take_in(self, incoming: UploadFolder) -> None:
        """Save each restored document in its base; documents without a base are dropped."""
        for file in await asyncio.to_thread(incoming.files):
            upload = await asyncio.to_thread(incoming.read, file)
            if upload is not None and (saved := self.book.find(upload.workspace, upload.kb_id)) is not None:
                await (await self._ready(saved)).put(upload.workspace, upload.kb_id, upload.document)
            await asyncio.to_thread(incoming.remove, file)

    async def _erase(self) -> None:
        if not self.book.erasing:
            return
        try:
            async with self._opening:
                await self._erase_with(self._needed())
        except HostError as error:
            _log.warning("deleted knowledge bases wait to be erased", problem=error.message)

    async def _erase_with(self, engine: KnowledgeEngine) -> None:
        for workspace, kb_id in sorted(self.book.erasing):
            self._opened.pop((workspace, kb_id), None)
            await engine.drop_base(workspace, kb_id)
            await self.book.erased(workspace, kb_id)

    async def _note(
        self, workspace: str, kb_id: str, document_id: str, action: str, by: str, **more: str | int
    ) -> None:
        """Record who changed which document, without its content."""
        data = encode_data({"kb_id": kb_id, "document_id": document_id, "action": action, "by": by, **more})
        record = NewRecord(workspace=workspace, type="knowledge.changed", data=data, created_ms=self._clock.now_ms())
        await self._journal.commit(Entry(records=[record], size=len(data)))


async def _rerank(
    rerank: Rerank, workspace: str, model: str, query: str, found: Sequence[KnowledgeChunk]
) -> Sequence[KnowledgeChunk]:
    """The chunks in the order of the rerank model, or in their old order if the model fails."""
    if not found:
        return found
    first, rest = found[:RERANK_CANDIDATES], found[RERANK_CANDIDATES:]
    try:
        async with asyncio.timeout(RERANK_S):
            scores = await rerank(workspace, model, query, [chunk.text for chunk in first])
    except (HostError, TimeoutError) as error:
        _log.warning("a rerank model did not answer", workspace=workspace, model=model, problem=str(error))
        return found
    return [*reordered(first, scores), *rest]


# --- wiring ---


def open_library(
    settings: Settings, journal: Journal, clock: Clock, rerank: Rerank, *, is_confined: bool = False
) -> Library:
    """An empty library. The engine is imported on first use, because most hosts have no knowledge base. With
    `is_confined` its process confines itself."""
    folder = settings.data / TABLES_FOLDER

    def engine() -> KnowledgeEngine:
        module = importlib.import_module("bollard.host.knowledge.engine")
        opened = module.ProcessEngine(
            data=folder,
            database=settings.knowledge_database or settings.database,
            is_alone=bool(settings.knowledge_database),
            is_confined=is_confined,
        )
        return cast("KnowledgeEngine", opened)

    _adopt(settings.data, folder)

    return Library(
        KnowledgeBaseRepository(journal, clock),
        journal,
        clock,
        engine,
        undone=(folder / UNFINISHED).exists,
        incoming=UploadFolder(settings.data),
        rerank=rerank,
    )


def _adopt(data: Path, folder: Path) -> None:
    """Move the files that an earlier version left beside those of the host. An interrupted move is continued by the
    next start."""
    left = [data / UNFINISHED, *data.glob("knowledge.sqlite-*"), data / "knowledge.sqlite", data / "knowledge.lock"]
    for path in left:
        if path.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            path.chmod(0o600)
            path.rename(folder / path.name)


# --- capabilities ---


PREFIX: Final = "kb:"
KB_TYPE: Final = "documents"


class KnowledgeSource:
    """Knowledge bases as capabilities (`kb:ID`). Runs query them over the run API; they are not tools. One per host."""

    def __init__(self, book: KnowledgeBaseRepository, is_open: Callable[[str], bool] = lambda _: True) -> None:
        """`is_open` tells whether a workspace exists."""
        self._book = book
        self._is_open = is_open

    @property
    def adapter(self) -> "KnowledgeSource":
        return self

    @property
    def revision(self) -> int:
        return self._book.revision

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        if not self._is_open(workspace):
            return []
        return [_capability(saved.value) for saved in self._book.all(workspace)]

    def absent(self, workspace: str) -> Mapping[str, Why]:
        del workspace
        return {}

    async def invoke(self, order: CallOrder) -> CallResult:
        """Never called: a knowledge base is not a tool."""
        raise ToolFailed(
            f"{order.capability.id} is not a tool",
            hint="query it with knowledge.retrieve",
            reason="knowledge_base_is_no_tool",
            capability=order.capability.id,
        )


def _capability(base: SavedKnowledgeBase) -> Capability:
    return Capability(
        id=f"{PREFIX}{base.kb_id}",
        name=base.kb_id,
        kind="knowledge",
        description=base.description,
        input_schema={"type": "object"},
        risk="low",
        flow=base.brings,
        effects="none",
        source="workspace",
        about={"kb_name": base.name or base.kb_id, "kb_type": KB_TYPE},
    )

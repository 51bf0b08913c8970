"""Runs the knowledge process: starts it on the first call, restarts it when it dies, and stops it when it is idle. The
frames are in `bollard.wire.knowledge_frames`.

A call in progress when the process dies raises `KnowledgeUnavailable`; its outcome is unknown. The next process
continues unfinished indexing, and is started for that too.
"""

import asyncio
import contextlib
import importlib.util
import itertools
import os
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import structlog

from bollard.extras import install_command
from bollard.helper.process import HelperEnded, HelperProcess, LinkLimits
from bollard.host.errors import HostError, InvalidRequest, KnowledgeUnavailable, NotFound, PayloadTooLarge, caused_by
from bollard.host.knowledge.bases import SavedKnowledgeBase
from bollard.host.knowledge.boundary import Document, DocumentText, NewDocument, Question
from bollard.protocol import JsonObject, JsonValue, KnowledgeChunk
from bollard.wire import worker_environment
from bollard.wire.knowledge_frames import (
    DOCUMENT_BYTES,
    FRAME_BYTES,
    QUESTION_BYTES,
    TOP_K,
    UNFINISHED,
    AskContent,
    AskDocument,
    AskDocuments,
    Begin,
    Body,
    Busy,
    Chunk,
    Close,
    DocumentRow,
    Done,
    DropBase,
    DropDocument,
    ExtractText,
    Failed,
    Found,
    FromHost,
    FromKnowledge,
    Listed,
    OpenBase,
    Opened,
    PutDocument,
    Refused,
    Retrieve,
    Shown,
    Text,
    decode_from_knowledge,
    encode_frame,
)

START_S: Final = 60.0
"""Time limit for opening the tables; an earlier process may have to end first."""
CALL_S: Final = 120.0
"""Time limit of one call; then the process is killed."""
IDLE_S: Final = 300.0
"""Time after which an idle process is stopped."""
CALLS: Final = 64
"""Concurrent calls; more wait."""
PUTS: Final = 2
"""Concurrent document transfers; each may have the maximum size."""
BACK_OFF_S: Final = 0.25
"""Delay before a restart; doubles with each process that dies before its first answer."""
BACK_OFF_MOST_S: Final = 30.0
"""The longest delay before a restart."""
STOP_S: Final = 15.0
"""Time limit for an orderly stop."""
_AGAIN: Final = "retry; the process restarts"
_MODULE: Final = "bollard.knowledge"
_OPENING: Final = 0
"""Number of the opening request. Calls are numbered from 1."""
_NEEDED: Final = ("numpy", "wordllama", "pypdf")

_log = structlog.get_logger("bollard.host.knowledge")
_Helper = HelperProcess[FromKnowledge]
_A = TypeVar("_A", Done, Shown, Listed, Body, Text, Found)
_ERRORS: Final[dict[str, type[HostError]]] = {
    "not_found": NotFound,
    "payload_too_large": PayloadTooLarge,
    "invalid_request": InvalidRequest,
}


class ProcessEngine:
    """Implements `KnowledgeEngine` with the knowledge process. One per host."""

    def __init__(
        self,
        *,
        data: Path,
        database: str,
        is_alone: bool = False,
        is_confined: bool = False,
        idle_s: float = IDLE_S,
        back_off_s: float = BACK_OFF_S,
    ) -> None:
        """`data` is the folder of the process, which confines itself to it with `is_confined`. With `is_alone` the role
        of `database` must have no right to a table of others."""
        self._data = data
        self._begin = Begin(database=database, data=str(data.absolute()), is_alone=is_alone, is_confined=is_confined)
        self._idle_s = idle_s
        self._back_off_s = back_off_s
        self._helper: _Helper | None = None
        self._last: _Helper | None = None
        """The newest process, also while it starts or ends. The next one starts after its end."""
        self._busy = False
        self._changing = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._calls = asyncio.Semaphore(CALLS)
        self._puts = asyncio.Semaphore(PUTS)
        self._extracts = asyncio.Lock()
        self._deaths = 0
        """Consecutive processes that died before their first answer."""
        self._rest_until = 0.0
        self._problem = "the knowledge process died several times"
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process id, if the process runs."""
        return None if self._helper is None else self._helper.pid

    @property
    def busy(self) -> bool:
        """Whether the process is indexing or erasing."""
        return self._helper is not None and self._busy

    async def resume(self) -> None:
        """Start the process if an earlier one left unfinished work."""
        if await asyncio.to_thread((self._data / UNFINISHED).exists):
            await self._started()

    # --- bases ---

    async def open_base(self, workspace: str, base: SavedKnowledgeBase) -> None:
        await self._ask(
            lambda call: OpenBase(
                call=call,
                workspace=workspace,
                kb_id=base.kb_id,
                embedding=base.embedding,
                chunk_tokens=base.chunk_tokens,
                overlap_tokens=base.overlap_tokens,
            ),
            Done,
        )

    async def drop_base(self, workspace: str, kb_id: str) -> None:
        await self._ask(lambda call: DropBase(call=call, workspace=workspace, kb_id=kb_id), Done)

    # --- documents ---

    async def put(self, workspace: str, kb_id: str, document: NewDocument) -> Document:
        """Raises `PayloadTooLarge` too."""
        _check_size(document.content)
        async with self._puts:
            answer = await self._ask(
                lambda call: PutDocument(
                    call=call,
                    workspace=workspace,
                    kb_id=kb_id,
                    document_id=document.document_id,
                    name=document.name,
                    mime_type=document.mime_type,
                    content=document.content,
                    source=document.source,
                    metadata=document.metadata,
                ),
                Shown,
            )
        return _document(answer.document)

    async def documents(self, workspace: str, kb_id: str, after: str, limit: int) -> Sequence[Document]:
        answer = await self._ask(
            lambda call: AskDocuments(call=call, workspace=workspace, kb_id=kb_id, after=after, limit=limit), Listed
        )
        return [_document(row) for row in answer.documents]

    async def document(self, workspace: str, kb_id: str, document_id: str) -> Document:
        answer = await self._ask(
            lambda call: AskDocument(call=call, workspace=workspace, kb_id=kb_id, document_id=document_id), Shown
        )
        return _document(answer.document)

    async def content(self, workspace: str, kb_id: str, document_id: str) -> bytes:
        async with self._puts:
            answer = await self._ask(
                lambda call: AskContent(call=call, workspace=workspace, kb_id=kb_id, document_id=document_id), Body
            )
        return answer.content

    async def drop(self, workspace: str, kb_id: str, document_id: str) -> None:
        await self._ask(
            lambda call: DropDocument(call=call, workspace=workspace, kb_id=kb_id, document_id=document_id), Done
        )

    async def extract(self, *, name: str, mime_type: str, content: bytes, offset: int, limit: int) -> DocumentText:
        """Raises `PayloadTooLarge` too. One at a time: the process extracts one document after the other."""
        _check_size(content)
        async with self._extracts:
            answer = await self._ask(
                lambda call: ExtractText(
                    call=call, name=name, mime_type=mime_type, content=content, offset=offset, limit=limit
                ),
                Text,
            )
        return DocumentText(text=answer.text, characters=answer.characters, problem=answer.problem)

    # --- questions ---

    async def retrieve(self, workspace: str, kb_id: str, question: Question) -> Sequence[KnowledgeChunk]:
        """Raises `InvalidRequest` too."""
        if not 0 < question.top_k <= TOP_K:
            raise InvalidRequest(
                f"top_k is {question.top_k}",
                hint=f"ask for 1 to {TOP_K} chunks",
                reason="top_k_out_of_range",
                field="top_k",
                top_k=question.top_k,
                most=TOP_K,
            )
        if len(msgspec.msgpack.encode((question.query, question.filters))) > QUESTION_BYTES:
            raise InvalidRequest(
                "the question is too long",
                hint=f"use at most {QUESTION_BYTES} bytes",
                reason="question_too_large",
                field="query",
                most=QUESTION_BYTES,
            )
        answer = await self._ask(
            lambda call: Retrieve(
                call=call,
                workspace=workspace,
                kb_id=kb_id,
                query=question.query,
                top_k=question.top_k,
                filters=question.filters,
            ),
            Found,
        )
        return [_chunk(kb_id, chunk) for chunk in answer.chunks]

    async def close(self) -> None:
        self._closed = True
        self._cancel_idle()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        async with self._changing:
            helper, self._helper = self._helper, None
            if helper is not None:
                await helper.stop(STOP_S, encode_frame(Close()))

    # --- calls ---

    async def _ask(self, order: Callable[[int], FromHost], kind: type[_A]) -> _A:
        """Send one call. Raises the error of the process, or `KnowledgeUnavailable`."""
        async with self._calls:
            self._cancel_idle()
            helper = await self._started()
            call = next(self._numbers)
            try:
                async with asyncio.timeout(CALL_S):
                    answer = await helper.request(call, encode_frame(order(call)))
            except HelperEnded:
                raise _gone() from None
            except TimeoutError:
                helper.kill()
                raise KnowledgeUnavailable(
                    "the knowledge process did not answer in time", hint=_AGAIN, reason="no_answer"
                ) from None
            finally:
                self._watch_idle()
            self._deaths = 0
        if isinstance(answer, Failed):
            raise _ERRORS.get(answer.code, KnowledgeUnavailable)(
                answer.message, hint=answer.hint, reason=answer.reason, **answer.details
            )
        if not isinstance(answer, kind):
            helper.kill()
            raise KnowledgeUnavailable(
                "the knowledge process sent an unexpected answer", hint=_AGAIN, reason="unexpected_answer"
            )
        return answer

    # --- the process ---

    async def _started(self) -> _Helper:
        async with self._changing:
            if self._closed:
                raise KnowledgeUnavailable("the host is stopping", hint="retry when it is back", reason="host_stopping")
            if self._helper is not None:
                return self._helper
            left_s = self._rest_until - asyncio.get_running_loop().time()
            if left_s > self._back_off_s:
                raise KnowledgeUnavailable(
                    self._problem,
                    hint=f"retry in {left_s:.0f} s, when the process restarts",
                    reason="restarting",
                    problem=self._problem,
                    seconds=round(left_s),
                )
            await asyncio.sleep(max(0.0, left_s))
            if any(importlib.util.find_spec(name) is None for name in _NEEDED):
                command = install_command("knowledge")
                raise KnowledgeUnavailable(
                    "the packages for knowledge bases are not installed on the host",
                    hint=f"install them: `{command}`, then restart the host",
                    reason="not_installed",
                    command=command,
                )
            if self._last is not None:
                await self._last.end()
            helper = self._last = self._spawned()
            try:
                vectors = await self._opened(helper)
            except BaseException as error:
                await helper.end()
                if isinstance(error, KnowledgeUnavailable):
                    self._problem = error.message
                raise
            self._helper = helper
            self._watch_idle()
            _log.info("the knowledge process started", pid=helper.pid, vectors_searched_by=vectors)
            return helper

    def _spawned(self) -> _Helper:
        self._busy = False
        environment = worker_environment(os.environ, [name for name in os.environ if name.startswith("PG")])
        try:
            self._data.mkdir(mode=0o700, exist_ok=True)
            return HelperProcess(
                _MODULE,
                environment={**environment, "OPENBLAS_NUM_THREADS": "1"},
                decode=decode_from_knowledge,
                heard=self._receive,
                lost=self._lost,
                limits=LinkLimits(frame_bytes=FRAME_BYTES),
            )
        except OSError as error:
            raise KnowledgeUnavailable(
                f"the knowledge process cannot start: {error}", hint=_AGAIN, reason="cannot_start", **caused_by(error)
            ) from error

    async def _opened(self, helper: _Helper) -> str:
        """Open the tables; the name of the vector search in use. Raises `KnowledgeUnavailable`."""
        try:
            async with asyncio.timeout(START_S):
                answer = await helper.request(_OPENING, encode_frame(self._begin))
        except TimeoutError:
            raise KnowledgeUnavailable(
                "the knowledge process did not start in time", hint=_AGAIN, reason="start_timeout"
            ) from None
        except HelperEnded:
            raise _gone() from None
        if isinstance(answer, Refused):
            raise KnowledgeUnavailable(answer.message, hint=answer.hint, reason=answer.reason, **answer.details)
        return answer.vectors if isinstance(answer, Opened) else ""

    def _receive(self, helper: _Helper, frame: FromKnowledge) -> None:
        match frame:
            case Opened() | Refused():
                helper.settle(_OPENING, frame)
            case Busy():
                self._busy = frame.busy
            case _:
                helper.settle(frame.call, frame)

    def _lost(self, helper: _Helper) -> None:
        """Called when the process ends without being stopped."""
        was_busy, self._busy = self._busy, False
        if self._helper is helper:
            self._helper = None
        if self._closed:
            return
        delay_s = min(BACK_OFF_MOST_S, self._back_off_s * 2**self._deaths)
        self._deaths += 1
        self._rest_until = asyncio.get_running_loop().time() + delay_s
        _log.error("the knowledge process is lost", pid=helper.pid, again_in_s=delay_s, busy=was_busy)
        if was_busy:
            self._begin_task(self._resume_after(delay_s))

    async def _resume_after(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        with contextlib.suppress(KnowledgeUnavailable):  # the next call reports it
            await self._started()

    def _begin_task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- idleness ---

    def _watch_idle(self) -> None:
        self._cancel_idle()
        if self._helper is not None and not self._closed:
            self._idle = asyncio.get_running_loop().call_later(self._idle_s, self._is_idle)

    def _cancel_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _is_idle(self) -> None:
        if self._helper is not None and (self._busy or self._helper.has_requests):
            self._watch_idle()
        else:
            self._begin_task(self._end_idle())

    async def _end_idle(self) -> None:
        async with self._changing:
            helper = self._helper
            if helper is not None and not self._busy and not helper.has_requests:
                self._helper = None
                await helper.stop(STOP_S, encode_frame(Close()))


def _check_size(content: bytes) -> None:
    if len(content) > DOCUMENT_BYTES:
        raise PayloadTooLarge(
            f"the document has {len(content)} bytes",
            hint=f"split it; the limit is {DOCUMENT_BYTES} bytes",
            reason="document_too_large",
            size=len(content),
            most=DOCUMENT_BYTES,
        )


def _document(row: DocumentRow) -> Document:
    fields = {name: getattr(row, name) for name in row.__struct_fields__}
    return Document(**{**fields, "problem": msgspec.to_builtins(row.problem)})


def _chunk(kb_id: str, chunk: Chunk) -> KnowledgeChunk:
    headings: list[JsonValue] = [*chunk.headings]
    source: JsonObject = {
        "document_id": chunk.document_id,
        "name": chunk.name,
        "source": chunk.source,
        "headings": headings,
    }
    if chunk.page is not None:
        source["page"] = chunk.page
    metadata: JsonObject = {
        **chunk.metadata,
        "document_id": chunk.document_id,
        "headings": headings,
        "position": {"start": chunk.start, "end": chunk.end},
    }
    return KnowledgeChunk(
        chunk_id=f"{chunk.document_id}:{chunk.start}-{chunk.end}",
        kb_id=kb_id,
        text=chunk.text,
        score=chunk.score,
        source=source,
        metadata=metadata,
    )


def _gone() -> KnowledgeUnavailable:
    return KnowledgeUnavailable("the knowledge process died", hint=_AGAIN, reason="process_died", outcome="unknown")

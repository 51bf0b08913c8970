"""Accounting of model calls, for runs and for callers outside of a run. The cost is reserved before the call, and one
record states the real cost when the call ends, however it ends. `ModelGateway` makes the call; nothing here writes
while an answer streams."""

import asyncio
import base64
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final

import msgspec
from msgspec.structs import replace

from bollard.host.actions.budgets import Cost
from bollard.host.errors import HostError, NotFound
from bollard.host.grants.check import Denied, check
from bollard.host.models.boundary import ModelCall, ModelType
from bollard.host.models.calls import CallTarget, ModelCaller
from bollard.host.models.limits import CALL_ARTIFACT_BYTES, CALL_ARTIFACTS, CALL_TEXTS, EXTRA_ARGS_BYTES
from bollard.host.models.pricing import cost_of, guess_messages, guess_text, guess_texts
from bollard.host.run_api.gate import Emit
from bollard.host.run_api.model_billing import BilledCall, Operation, Payer, RunPayer, WorkspacePayer
from bollard.host.run_api.models import ModelPorts
from bollard.host.run_api.reach import FetchContent, FindArtifact
from bollard.host.run_api.refusal import ApiRefused
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.blobs import BlobStore
from bollard.host.store.rows import ArtifactRow
from bollard.protocol import (
    ArtifactContent,
    Embeddings,
    FileBase64Content,
    ImageBase64Content,
    JsonObject,
    Message,
    MessageChunk,
    ModelsEmbed,
    ModelsInvoke,
    ModelsRerank,
    RerankResult,
)

# --- messages and arguments ---


_READ: Final = "artifacts.read"
_IMAGE: Final = "image/"
_OURS: Final = frozenset(
    {
        "model",
        "models",
        "messages",
        "input",
        "prompt",
        "system",
        "instructions",
        "stream",
        "stream_options",
        "tools",
        "functions",
        "n",
        "best_of",
        "background",
        "previous_response_id",
    }
)
"""Arguments that select the model, the input or the kind of answer; the call sets them itself."""


def checked_args(extra_args: JsonObject | None) -> JsonObject:
    """Raises `ApiRefused` for an argument that would bypass the grant."""
    given = extra_args or {}
    for name in given:
        if name.lower() in _OURS:
            raise ApiRefused(
                "invalid_argument",
                f"extra_args.{name[:64]}: the call sets this argument itself",
                details={"field": f"extra_args.{name[:64]}"},
            )
    if len(msgspec.json.encode(given)) > EXTRA_ARGS_BYTES:
        raise ApiRefused("payload_too_large", f"extra_args is larger than {EXTRA_ARGS_BYTES} bytes")
    return given


class MessageContent:
    """Replaces artifact references in messages by their content."""

    def __init__(self, find: FindArtifact, blobs: BlobStore, fetch: FetchContent) -> None:
        self._find = find
        self._blobs = blobs
        self._fetch = fetch

    async def resolved(self, run: LiveRun, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages with images and files in place of artifact references."""
        wanted = {
            part.artifact_id: None
            for message in messages
            if not isinstance(message.content, str)
            for part in message.content
            if isinstance(part, ArtifactContent)
        }
        if not wanted:
            return tuple(messages)
        if len(wanted) > CALL_ARTIFACTS:
            raise ApiRefused("payload_too_large", f"a call may have at most {CALL_ARTIFACTS} artifacts")
        rows = [await self._row(run, artifact_id) for artifact_id in wanted]
        if sum(row.size_bytes or 0 for row in rows) > CALL_ARTIFACT_BYTES:
            raise ApiRefused(
                "payload_too_large", f"the artifacts of a call may have at most {CALL_ARTIFACT_BYTES} bytes"
            )
        found: dict[str, ImageBase64Content | FileBase64Content] = {}
        left = CALL_ARTIFACT_BYTES
        for row in rows:
            content = await asyncio.to_thread(self._content, row, left)
            left -= len(content)
            found[row.artifact_id] = _element(row, content)
        return tuple(_with(message, found) for message in messages)

    async def _row(self, run: LiveRun, artifact_id: str) -> ArtifactRow:
        """The artifact row, with the same checks as `artifacts.read`."""
        allowed = check(run.grant, run.revoked, _READ, artifact_id)
        if isinstance(allowed, Denied):
            raise ApiRefused.of(allowed)
        row = await asyncio.to_thread(self._find, run, artifact_id)
        try:
            row = None if row is None else await self._fetch(row)
        except NotFound as error:
            raise ApiRefused("not_found", error.message) from None
        if row is None or row.sha256 is None:
            raise ApiRefused("not_found", "this run has no such artifact")
        run.take_in(row.flow)
        return row

    def _content(self, row: ArtifactRow, left: int) -> bytes:
        """Read the content; blocks. The size in the row is not trusted."""
        sha256 = row.sha256 or ""
        try:
            if self._blobs.size(sha256) > left:
                raise ApiRefused(
                    "payload_too_large", f"the artifacts of a call may have at most {CALL_ARTIFACT_BYTES} bytes"
                )
            return b"".join(self._blobs.stream(sha256))
        except NotFound:
            raise ApiRefused("not_found", "the content of the artifact is missing") from None


def _element(row: ArtifactRow, content: bytes) -> ImageBase64Content | FileBase64Content:
    encoded = base64.b64encode(content).decode()
    mime_type = (row.mime_type or "application/octet-stream").partition(";")[0].strip().lower()
    if mime_type.startswith(_IMAGE):
        return ImageBase64Content(image_base64=f"data:{mime_type};base64,{encoded}")
    return FileBase64Content(file_base64=encoded, file_name=row.name)


def _with(message: Message, found: dict[str, ImageBase64Content | FileBase64Content]) -> Message:
    if isinstance(message.content, str):
        return message
    parts = tuple(found[part.artifact_id] if isinstance(part, ArtifactContent) else part for part in message.content)
    return message.model_copy(update={"content": parts})


_WORDS: Final = {"content"}
_OPERATIONS: Final[dict[ModelType, Operation]] = {"llm": "stream", "rerank": "rerank", "embedding": "embed"}
"""Operation of a call outside of the run API, by model type."""


class ModelCalls:
    """Answers the model calls of runs. The gate has already checked the grant. One per host."""

    def __init__(self, ports: ModelPorts) -> None:
        self._ports = ports
        self._content = MessageContent(ports.find, ports.blobs, ports.fetch)
        self._known: set[str] = set()

    async def invoke(self, run: LiveRun, params: ModelsInvoke) -> Message:
        call = await self._call(run, params)
        async with self._asked(self._of(run), params.model_id, "invoke", _sent(call), _most(call)) as (place, asked):
            answer = await place.backend.invoke(call, place.key)
            asked.answered(answer)
        return asked.priced(answer)

    async def stream(self, run: LiveRun, params: ModelsInvoke, emit: Emit) -> None:
        call = await self._call(run, params)
        async with (
            self._asked(self._of(run), params.model_id, "stream", _sent(call), _most(call)) as (place, asked),
            aclosing(place.backend.stream(call, place.key)) as chunks,
        ):
            async for chunk in chunks:
                asked.heard(chunk)
                await emit(_piece(asked.priced(chunk)))

    async def rerank(self, run: LiveRun, params: ModelsRerank) -> RerankResult:
        sent = guess_text(params.query) + guess_texts(params.documents)
        async with self._asked(self._of(run), params.model_id, "rerank", sent) as (place, _):
            scores = await place.backend.rerank(params.query, params.documents, params.top_k, place.key)
        return RerankResult(results=scores)

    async def embed(self, run: LiveRun, params: ModelsEmbed) -> Embeddings:
        if len(params.texts) > CALL_TEXTS:
            raise ApiRefused(
                "payload_too_large", f"a call may have at most {CALL_TEXTS} texts", details={"field": "texts"}
            )
        async with self._asked(self._of(run), params.model_id, "embed", guess_texts(params.texts)) as (place, _):
            vectors = await place.backend.embed(params.texts, place.key)
        encoded = tuple(base64.b64encode(each).decode() for each in vectors.content)
        return Embeddings(vectors_base64=encoded, dimensions=vectors.dimensions)

    async def _call(self, run: LiveRun, params: ModelsInvoke) -> ModelCall:
        extra_args = checked_args(params.extra_args)
        messages = await self._content.resolved(run, params.messages)
        return ModelCall(messages=messages, tools=params.tools or (), extra_args=extra_args)

    @asynccontextmanager
    async def asked(self, asker: ModelCaller, model_id: str, sent: int, most: int) -> AsyncGenerator[CallTarget]:
        """A call outside of runs, charged to the workspace of the caller."""
        known = self._ports.gateway.book.get(asker.workspace, model_id)
        payer, operation = WorkspacePayer(asker, self._ports), _OPERATIONS[known.spec.served_type]
        async with self._asked(payer, model_id, operation, sent, most) as (place, asked):
            yield replace(place, heard=asked.heard)

    @asynccontextmanager
    async def _asked(
        self, payer: Payer, model_id: str, operation: Operation, sent: int, most: int = 0
    ) -> AsyncGenerator[tuple[CallTarget, BilledCall]]:
        """One call: reserve, invoke, measure, settle, record. It sends about `sent` tokens and receives at `most` this
        many, if the caller set a limit."""
        ports = self._ports
        known = ports.gateway.book.get(payer.asker.workspace, model_id)
        asked = BilledCall(payer, known, operation, sent, ports)
        price = known.spec.price
        amount = Cost(calls=1, tokens=sent + most, cost=0.0 if price is None else cost_of(price, sent, most))
        payer.closing.add(asked.cut)
        try:
            asked.reserved = payer.reserve(amount)
            async with ports.gateway.unpaid(payer.asker, model_id, sent) as place:
                asked.begin(place.pace)
                yield place, asked
            asked.end("completed")
        except HostError as error:
            asked.fail(error)
            raise
        except asyncio.CancelledError:
            asked.cut()
            raise
        except BaseException:
            asked.end("failed", "broken")
            raise
        finally:
            payer.closing.discard(asked.cut)

    def _of(self, run: LiveRun) -> RunPayer:
        self._watch(run)
        return RunPayer(run, self._ports)

    def _watch(self, run: LiveRun) -> None:
        """Drop the cached keys of a run that has ended."""
        facts = run.facts
        if facts.run_id not in self._known:
            self._known.add(facts.run_id)
            run.done.add_done_callback(lambda _: self._forget(facts.workspace, facts.run_id))

    def _forget(self, workspace: str, run_id: str) -> None:
        self._known.discard(run_id)
        self._ports.budgets.forget(run_id)
        self._ports.gateway.forget(ModelCaller(workspace=workspace, by=f"run:{run_id}"))


def _piece(chunk: MessageChunk) -> JsonObject:
    """A chunk as on the wire. Text-only chunks take a fast path, because there may be thousands per second."""
    if chunk.model_fields_set == _WORDS and isinstance(chunk.content, str):
        return {"role": chunk.role, "content": chunk.content}
    return chunk.to_wire()


def _sent(call: ModelCall) -> int:
    return guess_messages(call.messages, call.tools)


def _most(call: ModelCall) -> int:
    """The output limit of the call, if the caller set one."""
    for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        value = call.extra_args.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return 0

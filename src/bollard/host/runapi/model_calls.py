"""Calls of models, for runs and for who asks outside of them: what they may cost is set aside before, and what they
came to is written down once, however they end. Asking itself is the desk's job; nothing here writes while an answer
streams."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Final

from msgspec.structs import replace

from bollard.host.actions.budgets import Amount
from bollard.host.errors import HostError
from bollard.host.models.boundary import ModelCall, ModelType
from bollard.host.models.calling import Asker, Place
from bollard.host.models.limits import CALL_TEXTS
from bollard.host.models.pricing import cost_of, guess_messages, guess_text, guess_texts
from bollard.host.runapi.gate import Emit
from bollard.host.runapi.model_call import Asked, Operation
from bollard.host.runapi.model_content import MessageContent, checked_args
from bollard.host.runapi.model_payers import Payer, RunPayer, WorkspacePayer
from bollard.host.runapi.models import ModelPorts
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runs.live import LiveRun
from bollard.protocol import (
    Embeddings,
    JsonObject,
    Message,
    MessageChunk,
    ModelsEmbed,
    ModelsInvoke,
    ModelsRerank,
    RerankResult,
)

__all__ = ["ModelCalls"]

_WORDS: Final = {"content"}
_OPERATIONS: Final[dict[ModelType, Operation]] = {"llm": "stream", "rerank": "rerank", "embedding": "embed"}
"""What is asked of a model outside of the run API, by its type."""


class ModelCalls:
    """One per host. That the grant holds the model was checked before."""

    def __init__(self, ports: ModelPorts) -> None:
        self._ports = ports
        self._content = MessageContent(ports.find, ports.blobs)
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
                "payload_too_large", f"one call has {CALL_TEXTS} texts at most", details={"field": "texts"}
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
    async def asked(self, asker: Asker, model_id: str, sent: int, most: int) -> AsyncGenerator[Place]:
        """A call that no run makes: the workspace of who asks pays."""
        known = self._ports.desk.book.get(asker.workspace, model_id)
        payer, operation = WorkspacePayer(asker, self._ports), _OPERATIONS[known.spec.model_type]
        async with self._asked(payer, model_id, operation, sent, most) as (place, asked):
            yield replace(place, heard=asked.heard)

    @asynccontextmanager
    async def _asked(
        self, payer: Payer, model_id: str, operation: Operation, sent: int, most: int = 0
    ) -> AsyncGenerator[tuple[Place, Asked]]:
        """One call: reserved, asked, measured, settled, written down. `sent` tokens go out, and at `most` so many come
        back where the caller said so."""
        ports = self._ports
        known = ports.desk.book.get(payer.asker.workspace, model_id)
        asked = Asked(payer, known, operation, sent, ports)
        price = known.spec.price
        amount = Amount(calls=1, tokens=sent + most, cost=0.0 if price is None else cost_of(price, sent, most))
        payer.closing.add(asked.cut)
        try:
            asked.reserved = payer.reserve(amount)
            async with ports.desk.unpaid(payer.asker, model_id, sent) as place:
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
        """What is kept for a run goes with it."""
        facts = run.facts
        if facts.run_id not in self._known:
            self._known.add(facts.run_id)
            run.done.add_done_callback(lambda _: self._forget(facts.workspace, facts.run_id))

    def _forget(self, workspace: str, run_id: str) -> None:
        self._known.discard(run_id)
        self._ports.budgets.forget(run_id)
        self._ports.desk.forget(Asker(workspace=workspace, by=f"run:{run_id}"))


def _piece(chunk: MessageChunk) -> JsonObject:
    """As it is on the wire. Most are words and nothing else, and there may be thousands a second."""
    if chunk.model_fields_set == _WORDS and isinstance(chunk.content, str):
        return {"role": chunk.role, "content": chunk.content}
    return chunk.to_wire()


def _sent(call: ModelCall) -> int:
    return guess_messages(call.messages, call.tools)


def _most(call: ModelCall) -> int:
    """The tokens that the answer may have, where the caller said so."""
    for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        value = call.extra_args.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return 0

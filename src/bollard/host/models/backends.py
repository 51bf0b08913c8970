"""Opens the backend of a model, with retries. Knows all styles; each is imported when its first model is called."""

import asyncio
import contextlib
import importlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from bollard.host.egress.connections import Connections, HttpAnswer, Judge
from bollard.host.egress.destination import Destination
from bollard.host.egress.sse import SseDecoder, SseEvent
from bollard.host.errors import InvalidRequest, ModelFailed
from bollard.host.models.boundary import ModelBackend, ModelCall, Style, Vectors
from bollard.host.models.endpoint import Endpoint
from bollard.host.models.failures import after_emitting
from bollard.host.models.formats import ChatFormat, UnsupportedModel, check_arguments, chunks_of
from bollard.host.models.limits import EVENT_BYTES, RETRY_MAX_S, RETRY_S, WHOLE_IDLES
from bollard.host.models.specs import SavedModel
from bollard.protocol import Message, MessageChunk, RerankScore

# --- chat ---


class ChatBackend(UnsupportedModel):
    """A chat model in any format. Implements `ModelBackend`."""

    def __init__(self, endpoint: Endpoint, wanted: ChatFormat) -> None:
        self._endpoint = endpoint
        self._format = wanted

    async def stream(self, call: ModelCall, key: str | None) -> AsyncGenerator[MessageChunk]:
        wanted = self._format
        body = wanted.body(call, stream=True)
        headers = (*wanted.headers(key), ("accept", "text/event-stream"))
        async with self._endpoint.asked(wanted.path, body, headers, key) as answer:
            kind = answer.header("content-type") or ""
            if not kind.lower().startswith("text/event-stream"):  # some servers ignore the request to stream
                for chunk in chunks_of(wanted.whole(await answer.whole())):
                    yield chunk
                return
            reader = wanted.reader()
            async with contextlib.aclosing(_events(answer)) as events:
                async for event in events:
                    for chunk in reader.take(event):
                        answer.begun()
                        yield chunk
                    if reader.finished:
                        break
            yield reader.end()
            await answer.settle()

    async def invoke(self, call: ModelCall, key: str | None) -> Message:
        wanted = self._format
        body = wanted.body(call, stream=False)
        headers = (*wanted.headers(key), ("accept", "application/json"))
        async with self._endpoint.asked(wanted.path, body, headers, key, WHOLE_IDLES) as answer:
            return wanted.whole(await answer.whole())

    async def close(self) -> None:
        await self._endpoint.close()


async def _events(answer: HttpAnswer) -> AsyncGenerator[SseEvent]:
    decoder = SseDecoder(EVENT_BYTES)
    while piece := await answer.read():
        for event in decoder.feed(piece):
            yield event
    for event in decoder.end():
        yield event


# --- retries ---


Result = TypeVar("Result")
Sleep = Callable[[float], Awaitable[None]]
_chance = random.Random().random  # noqa: S311 -- spreads tries, hides nothing


def pause_s(error: ModelFailed, tried: int, tries: int, chance: float) -> float | None:
    """Delay before the next attempt; `None` if there is none. `chance` between 0 and 1 adds jitter."""
    if not error.retryable or tried >= tries:
        return None
    spread = min(RETRY_MAX_S, RETRY_S * 2.0 ** (tried - 1)) * (0.5 + chance / 2)
    wanted = error.details.get("retry_after_s")
    if not isinstance(wanted, int | float):
        return spread
    # The caller decides about a longer wait; jitter is added so that the retry is never too early.
    return None if wanted > RETRY_MAX_S else wanted + RETRY_S * chance


class Retrying:
    """Retries a backend while no part of the answer was emitted. Implements `ModelBackend`."""

    def __init__(
        self, inner: ModelBackend, tries: int, sleep: Sleep = asyncio.sleep, chance: Callable[[], float] = _chance
    ) -> None:
        self._inner = inner
        self._tries = tries
        self._sleep = sleep
        self._chance = chance

    async def stream(self, call: ModelCall, key: str | None) -> AsyncGenerator[MessageChunk]:
        tried = 0
        while True:
            tried += 1
            emitted = False
            try:
                async with contextlib.aclosing(self._inner.stream(call, key)) as chunks:
                    async for chunk in chunks:
                        emitted = True
                        yield chunk
            except ModelFailed as error:
                if emitted:
                    raise after_emitting(error) from error
                await self._pause(error, tried)
            else:
                return

    async def invoke(self, call: ModelCall, key: str | None) -> Message:
        return await self._again(lambda: self._inner.invoke(call, key))

    async def rerank(
        self, query: str, documents: Sequence[str], top_k: int | None, key: str | None
    ) -> tuple[RerankScore, ...]:
        return await self._again(lambda: self._inner.rerank(query, documents, top_k, key))

    async def embed(self, texts: Sequence[str], key: str | None) -> Vectors:
        return await self._again(lambda: self._inner.embed(texts, key))

    async def close(self) -> None:
        await self._inner.close()

    async def _again(self, ask: Callable[[], Awaitable[Result]]) -> Result:
        tried = 0
        while True:
            tried += 1
            try:
                return await ask()
            except ModelFailed as error:
                await self._pause(error, tried)

    async def _pause(self, error: ModelFailed, tried: int) -> None:
        """Wait before the next attempt, or raise the error."""
        pause = pause_s(error, tried, self._tries, self._chance())
        if pause is None:
            raise error
        await self._sleep(pause)


_FORMATS: Final[dict[Style, tuple[str, str]]] = {
    "openai-chat": ("openai_chat", "OpenAiChat"),
    "openai-responses": ("openai_responses", "OpenAiResponses"),
    "anthropic": ("anthropic", "Anthropic"),
}
_OTHERS: Final[dict[Style, tuple[str, str]]] = {
    "openai-embeddings": ("openai_embeddings", "Embedder"),
    "rerank": ("rerank", "Reranker"),
}


def open_backend(spec: SavedModel, judge: Judge) -> ModelBackend:
    """The backend of a model, not yet connected; `judge` checks its addresses. Raises `InvalidRequest` for an invalid
    configuration."""
    if spec.style == "demo":
        return _named("demo", "DemoBackend")(spec)
    check_arguments(spec)
    try:
        place = Destination.of(spec.base_url)
    except ValueError as error:
        raise InvalidRequest(
            f"base_url {error}",
            hint="use something like https://api.example.org/v1",
            reason="model_base_url_invalid",
            field="base_url",
        ) from error
    endpoint = Endpoint(spec, Connections(place, spec.connect_s, judge))
    if spec.style in _FORMATS:
        return Retrying(ChatBackend(endpoint, _named(*_FORMATS[spec.style])(spec)), spec.tries)
    return Retrying(_named(*_OTHERS[spec.style])(endpoint, spec), spec.tries)


def _named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"bollard.host.models.{module}"), name)

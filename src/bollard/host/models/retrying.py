"""Asking a provider again, while nothing of its answer was handed on. Wraps any backend."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar

from bollard.host.errors import ModelFailed
from bollard.host.models.backend_limits import RETRY_MAX_S, RETRY_S
from bollard.host.models.boundary import ModelBackend, ModelCall, Vectors
from bollard.host.models.failures import after_emitting
from bollard.protocol import Message, MessageChunk, RerankScore

__all__ = ["Retrying", "pause_s"]

Result = TypeVar("Result")
Sleep = Callable[[float], Awaitable[None]]
_chance = random.Random().random  # noqa: S311 -- spreads tries, hides nothing


def pause_s(error: ModelFailed, tried: int, tries: int, chance: float) -> float | None:
    """How long to wait before another try; `None` where there is none. `chance` is between 0 and 1."""
    if not error.retryable or tried >= tries:
        return None
    spread = min(RETRY_MAX_S, RETRY_S * 2.0 ** (tried - 1)) * (0.5 + chance / 2)
    wanted = error.details.get("retry_after_s")
    if not isinstance(wanted, int | float):
        return spread
    # Longer than anybody would wait here is the caller's to decide; a little later than asked for is never too soon.
    return None if wanted > RETRY_MAX_S else wanted + RETRY_S * chance


class Retrying:
    """A backend that does not give up at once. A `ModelBackend`."""

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
        """Wait, or raise it."""
        pause = pause_s(error, tried, self._tries, self._chance())
        if pause is None:
            raise error
        await self._sleep(pause)

"""Rate limits of one model: concurrent calls, requests and tokens per minute. A call over the limit is refused before
anything is sent, with the time to retry."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from bollard.host.clock import Clock
from bollard.host.errors import Overloaded
from bollard.host.models.limits import WAITING_CALLS
from bollard.host.models.specs import SavedModel

_MINUTE_S: Final = 60.0
_LEAST_WAIT_S: Final = 0.001


class Bucket:
    """A token bucket that refills evenly. A call may overdraw it; later calls wait until the debt is refilled."""

    def __init__(self, per_minute: int) -> None:
        self._per_s = per_minute / _MINUTE_S
        self._capacity = float(per_minute)
        self._level = float(per_minute)
        self._at: float | None = None

    def wait_s(self, now: float, amount: float) -> float | None:
        """Seconds until `amount` is available, at most the capacity; `None` if it is available now."""
        self._grow(now)
        short = min(amount, self._capacity) - self._level
        return max(short / self._per_s, _LEAST_WAIT_S) if short > 0 else None

    def take(self, now: float, amount: float) -> None:
        """The level may fall below zero. A negative amount returns what was not used."""
        self._grow(now)
        self._level = min(self._capacity, self._level - amount)

    def _grow(self, now: float) -> None:
        if self._at is not None:
            self._level = min(self._capacity, self._level + max(0.0, now - self._at) * self._per_s)
        self._at = now


class ModelPace:
    """The rate limits of one model of one workspace."""

    def __init__(self, spec: SavedModel, clock: Clock) -> None:
        self._model_id = spec.model_id
        self._clock = clock
        self._free = asyncio.Semaphore(spec.at_once)
        self._waiting = 0
        self._requests = None if spec.requests_per_minute is None else Bucket(spec.requests_per_minute)
        self._tokens = None if spec.tokens_per_minute is None else Bucket(spec.tokens_per_minute)

    @asynccontextmanager
    async def place(self, tokens: int) -> AsyncGenerator[None]:
        """Hold a slot for one call that sends `tokens` tokens; waits for a free slot. Raises `Overloaded`."""
        self._check(tokens)
        if self._free.locked() and self._waiting >= WAITING_CALLS:
            raise Overloaded(
                f"{WAITING_CALLS} calls are waiting for the model {self._model_id}",
                hint="send fewer concurrent calls, or raise at_once of the model",
                reason="rate_limited",
                emitted=False,
                model=self._model_id,
                retry_after_s=1.0,
            )
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()

    def settle(self, guessed: int, used: int) -> None:
        """Correct the estimate with the tokens that the call used."""
        if self._tokens is not None:
            self._tokens.take(self._clock.monotonic(), used - guessed)

    def _check(self, tokens: int) -> None:
        now = self._clock.monotonic()
        waits = [
            bucket.wait_s(now, amount)
            for bucket, amount in ((self._requests, 1), (self._tokens, tokens))
            if bucket is not None
        ]
        wait_s = max((wait for wait in waits if wait is not None), default=None)
        if wait_s is not None:
            raise Overloaded(
                f"the model {self._model_id} reached its rate limit",
                hint="retry later, or raise requests_per_minute and tokens_per_minute of the model",
                reason="rate_limited",
                emitted=False,
                model=self._model_id,
                retry_after_s=round(wait_s, 3),
            )
        if self._requests is not None:
            self._requests.take(now, 1)
        if self._tokens is not None:
            self._tokens.take(now, tokens)

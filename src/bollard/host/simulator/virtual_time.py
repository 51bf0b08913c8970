"""An event loop whose time passes only when nothing is left to do, and whose threads are turns of the same loop.

With it a history depends on its seed alone. Nothing here knows what is simulated.
"""

import asyncio
import contextvars
import selectors
from collections.abc import Callable
from random import Random
from typing import Any, Final

from bollard.host.clock import Clock

__all__ = ["Standstill", "VirtualClock", "VirtualLoop"]

_EPOCH_MS: Final = 1_700_000_000_000
_THREAD_S: Final = 0.004
"""The longest time that work given to a thread takes to begin."""


class Standstill(Exception):
    """Nothing is scheduled any more and the work is not done: somebody waits for ever."""


class _Selector(selectors.BaseSelector):
    """Waits for nothing: a wait moves the time instead."""

    def __init__(self, inner: selectors.BaseSelector, passed: Callable[[float | None], None]) -> None:
        self._inner = inner
        self._passed = passed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._passed(timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def get_map(self) -> Any:
        return self._inner.get_map()

    def close(self) -> None:
        self._inner.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at `now`, and draws from `random` how long threads take."""

    def __init__(self, now: float, random: Random) -> None:
        self._now = now
        self._random = random
        super().__init__(_Selector(selectors.DefaultSelector(), self._pass))

    def time(self) -> float:
        return self._now

    def _pass(self, timeout: float | None) -> None:
        if timeout is None:
            raise Standstill("nothing is left to happen")
        self._now += timeout

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """What a thread would do, in one later turn of this loop."""
        del executor
        done: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if done.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001 -- a thread's boundary: whatever it raises is its answer
                done.set_exception(error)
            else:
                done.set_result(result)

        self.call_later(self._random.uniform(0, _THREAD_S), work, context=contextvars.copy_context())
        return done


class VirtualClock(Clock):
    """The time of a loop, and a wall that agrees with it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return _EPOCH_MS + round(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()

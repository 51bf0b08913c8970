"""How often: token buckets by key, all of one size. Pure; the caller brings monotonic time.

A bucket is kept as the moment at which it will be full again, in whole microseconds, so that nothing is lost to
rounding. A full bucket and no bucket are the same thing, which is why forgetting full ones costs nothing.
"""

import heapq
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from bollard.host.errors import InvalidRequest

RATE_KEYS: Final = 10_000
"""Buckets that one `Rates` remembers. A newcomer beyond them makes it forget the one that is nearest to full."""
_SWEPT: Final = 2
"""Full buckets that a newcomer clears away; more than one, so that the table shrinks after a flood."""
_SECOND: Final = 1_000_000
"""In microseconds, the unit in here."""
_MINUTE: Final = 60 * _SECOND

Key = TypeVar("Key", bound=Hashable)


class Rates(Generic[Key]):
    """`limit_per_minute` for each key on average, and `burst` at once for who has rested.

    Memory is bounded by `keys`. When all of them are in use, the bucket that misses least is forgotten: its owner gets
    a full one, never more, and who has spent most is remembered longest.
    """

    def __init__(self, limit_per_minute: int, burst: int, *, keys: int = RATE_KEYS) -> None:
        for name, value in (("limit_per_minute", limit_per_minute), ("burst", burst), ("keys", keys)):
            if value < 1:
                raise InvalidRequest(f"{name} of a rate is {value}", hint="use a whole number from 1 up", field=name)
        self.limit_per_minute = limit_per_minute
        self.burst = burst
        self._keys = keys
        self._token = -(-_MINUTE // limit_per_minute)  # rounded up: rather a little slower than too fast
        self._full_at: dict[Key, int] = {}
        # One entry for each key. Its time may be older than the key's own, and is brought up to date when it surfaces.
        self._soonest: list[tuple[int, int, Key]] = []
        self._entries = 0

    def __len__(self) -> int:
        """Buckets that are remembered."""
        return len(self._full_at)

    def take(self, key: Key, now: float) -> float | None:
        """Take one token: `None`, or the seconds after which there is one. A refusal takes nothing."""
        wait_s = self.look(key, now)
        if wait_s is not None:
            return wait_s
        now_us = int(now * _SECOND)
        full_at = self._full_with_one_less(key, now_us)
        if key not in self._full_at:
            self._make_room(now_us)
            self._entries += 1
            heapq.heappush(self._soonest, (full_at, self._entries, key))
        self._full_at[key] = full_at
        return None

    def look(self, key: Key, now: float) -> float | None:
        """What `take` would say. Takes nothing."""
        now_us = int(now * _SECOND)
        wait = self._full_with_one_less(key, now_us) - now_us - self.burst * self._token
        # One more than that, so that who waits on a clock of floats does not come a microsecond early.
        return (wait + 1) / _SECOND if wait > 0 else None

    def _full_with_one_less(self, key: Key, now_us: int) -> int:
        """When the bucket would be full again, if a token were taken now."""
        return max(now_us, self._full_at.get(key, now_us)) + self._token

    def _make_room(self, now_us: int) -> None:
        for _ in range(_SWEPT):
            if not self._soonest:
                return
            full_at, key = self._next_full()
            if full_at > now_us and len(self._full_at) < self._keys:
                return
            heapq.heappop(self._soonest)
            del self._full_at[key]

    def _next_full(self) -> tuple[int, Key]:
        """The bucket that is full first. Each take puts at most one entry out of date, so this is cheap on average."""
        while True:
            noted, entry, key = self._soonest[0]
            full_at = self._full_at[key]
            if full_at == noted:
                return full_at, key
            heapq.heapreplace(self._soonest, (full_at, entry, key))

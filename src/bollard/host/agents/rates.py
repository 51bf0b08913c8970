"""Rate limits: token buckets by key, all of one size. Pure; the caller passes monotonic time.

A bucket is stored as the time at which it is full again, in whole microseconds to avoid rounding errors. A full bucket
need not be stored.
"""

import heapq
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from bollard.host.errors import InvalidRequest

RATE_KEYS: Final = 10_000
"""The most buckets of one `Rates`. Beyond that, a new bucket replaces the one that is nearest to full."""
_SWEPT: Final = 2
"""Full buckets that a new one removes. More than one, so that the table shrinks after a flood."""
_SECOND: Final = 1_000_000
"""In microseconds, the unit in here."""
_MINUTE: Final = 60 * _SECOND

Key = TypeVar("Key", bound=Hashable)


class Rates(Generic[Key]):
    """Allows `limit_per_minute` per key on average, and `burst` at once.

    At most `keys` buckets are stored. The fullest one is evicted first: its owner gets a full bucket, never more.
    """

    def __init__(self, limit_per_minute: int, burst: int, *, keys: int = RATE_KEYS) -> None:
        for name, value in (("limit_per_minute", limit_per_minute), ("burst", burst), ("keys", keys)):
            if value < 1:
                message, hint = f"{name} of a rate is {value}", "use a whole number from 1"
                raise InvalidRequest(message, reason="rate", hint=hint, field=name, value=value)
        self.limit_per_minute = limit_per_minute
        self.burst = burst
        self._keys = keys
        self._token = -(-_MINUTE // limit_per_minute)  # rounded up, so that the rate is never exceeded
        self._full_at: dict[Key, int] = {}
        # One entry per key. Its time may be outdated and is corrected when it reaches the top.
        self._soonest: list[tuple[int, int, Key]] = []
        self._entries = 0

    def __len__(self) -> int:
        """The number of stored buckets."""
        return len(self._full_at)

    def take(self, key: Key, now: float) -> float | None:
        """Take one token. Returns `None`, or the seconds until one is available."""
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
        """The result of `take`, without taking a token."""
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

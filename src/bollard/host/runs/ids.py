"""Ids that sort by creation order and cannot be guessed. Random bytes are read in bulk to save system calls."""

import os
import re
from collections.abc import Iterable
from typing import Final

_RANDOM_BYTES: Final = 8
_AT_ONCE: Final = 512
_TOP: Final = 1 << (8 * _RANDOM_BYTES)
_TIME_DIGITS: Final = 11
_STEP_BITS: Final = 40
"""The largest distance between two ids of one millisecond."""
_MADE: Final = re.compile(rf"[a-z]+_([0-9a-f]{{{_TIME_DIGITS}}})([0-9a-f]{{{2 * _RANDOM_BYTES}}})")


class IdMaker:
    """Makes the part of an id after its prefix."""

    def __init__(self) -> None:
        self._pool = b""
        self._used = 0
        self._last_ms = 0
        self._last = 0

    def next(self, now_ms: int) -> str:
        """Eleven hexadecimal digits of time and sixteen of randomness. Larger than every id before."""
        drawn = self._draw()
        if now_ms > self._last_ms:
            self._last_ms, self._last = now_ms, drawn >> 1  # room above it for more of this millisecond
        else:  # the same millisecond, or a clock that was set back
            self._last += 1 + (drawn & ((1 << _STEP_BITS) - 1))
            if self._last >= _TOP:
                self._last_ms, self._last = self._last_ms + 1, drawn >> 1
        return f"{self._last_ms:0{_TIME_DIGITS}x}{self._last:016x}"

    def go_behind(self, named: Iterable[str]) -> None:
        """Make the next id larger than each of these prefixed ids, even if the clock was set back since."""
        made = [(int(found[1], 16), int(found[2], 16)) for each in named if (found := _MADE.fullmatch(each))]
        self._last_ms, self._last = max([(self._last_ms, self._last), *made])

    def _draw(self) -> int:
        if self._used >= len(self._pool):
            self._pool = os.urandom(_RANDOM_BYTES * _AT_ONCE)
            self._used = 0
        drawn = self._pool[self._used : self._used + _RANDOM_BYTES]
        self._used += _RANDOM_BYTES
        return int.from_bytes(drawn)


def made_ms(named: str) -> int:
    """The creation time of a prefixed id, in milliseconds of the epoch."""
    return int(named.partition("_")[2][:_TIME_DIGITS], 16)

"""Ids that sort by time and cannot be guessed. Randomness is drawn for many at once: a system call each is dear."""

import os
from typing import Final

__all__ = ["IdMaker"]

_RANDOM_BYTES: Final = 8
_AT_ONCE: Final = 512


class IdMaker:
    """Makes the part of an id behind its prefix."""

    def __init__(self) -> None:
        self._pool = ""
        self._used = 0

    def next(self, now_ms: int) -> str:
        """Eleven digits of time, sixteen of randomness, all hexadecimal."""
        if self._used >= len(self._pool):
            self._pool = os.urandom(_RANDOM_BYTES * _AT_ONCE).hex()
            self._used = 0
        drawn = self._pool[self._used : self._used + 2 * _RANDOM_BYTES]
        self._used += 2 * _RANDOM_BYTES
        return f"{now_ms:011x}{drawn}"

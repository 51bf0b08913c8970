"""Whether callers are still who they were when they were let in, and the end of what is open for those who are not: a
key that was deleted or has expired, a session that ended, a user who was shut out or got another role."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Final, Protocol

from bollard.host.identity.caller import Caller
from bollard.host.limits import CALLER_LOOK_S

REVOKED: Final = "revoked"
"""What a reader is told whose stream or socket is ended for this."""
REVOKED_CLOSE: Final = 1008
"""The close code of a WebSocket that says so."""


class AccessRevoked(Exception):
    """Ends what is read, because its reader may not read on."""


class LongRead(Hashable, Protocol):
    """What can be open for long."""

    def end(self) -> None:
        """End it now, with a word about why."""
        ...


class Presence:
    """Everything that is open for long, and for whom. One look for all of them, no timer and no task for each."""

    def __init__(self, is_current: Callable[[Caller], bool]) -> None:
        self.is_current = is_current
        self._open: dict[LongRead, Caller] = {}
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, thing: LongRead, caller: Caller) -> None:
        """On the hot path: a run that is streamed comes and goes here."""
        self._open[thing] = caller
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CALLER_LOOK_S, self._next_look)

    def leave(self, thing: LongRead) -> None:
        self._open.pop(thing, None)

    def look(self) -> None:
        """End what is open for somebody who would not be let in now."""
        known: dict[int, bool] = {}  # who has many streams is one caller
        for thing, caller in list(self._open.items()):
            there = known.get(id(caller))
            if there is None:
                there = known[id(caller)] = self.is_current(caller)
            if not there:
                del self._open[thing]
                thing.end()

    def _next_look(self) -> None:
        self._timer = None
        self.look()
        if self._open:
            self._timer = asyncio.get_running_loop().call_later(CALLER_LOOK_S, self._next_look)

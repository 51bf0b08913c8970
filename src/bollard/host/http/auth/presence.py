"""Ends long-lived streams and sockets whose callers lost access: a deleted or expired key, an ended session, a disabled
user or a changed role."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Final, Protocol

from bollard.host.identity.caller import Caller
from bollard.host.limits import CALLER_LOOK_S

REVOKED: Final = "revoked"
"""The reason that such a stream or socket reports."""
REVOKED_CLOSE: Final = 1008
"""The close code of such a WebSocket."""


class AccessRevoked(Exception):
    """Raised when the reader of a stream has lost access."""


class LongRead(Hashable, Protocol):
    """A stream or socket that can stay open for long."""

    def end(self) -> None:
        """End it now and report `revoked`."""
        ...


class Presence:
    """The open streams and sockets with their callers. One timer checks all of them."""

    def __init__(self, is_current: Callable[[Caller], bool]) -> None:
        self.is_current = is_current
        self._open: dict[LongRead, Caller] = {}
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, stream: LongRead, caller: Caller) -> None:
        """Add a stream. On the hot path: every streamed run passes here."""
        self._open[stream] = caller
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CALLER_LOOK_S, self._run_check)

    def leave(self, stream: LongRead) -> None:
        self._open.pop(stream, None)

    def check(self) -> None:
        """End the streams of callers that would not be admitted now."""
        current: dict[int, bool] = {}  # each caller is checked once
        for stream, caller in list(self._open.items()):
            is_current = current.get(id(caller))
            if is_current is None:
                is_current = current[id(caller)] = self.is_current(caller)
            if not is_current:
                del self._open[stream]
                stream.end()

    def _run_check(self) -> None:
        self._timer = None
        self.check()
        if self._open:
            self._timer = asyncio.get_running_loop().call_later(CALLER_LOOK_S, self._run_check)

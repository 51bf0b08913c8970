"""One connected runtime: a worker that came over the network. It is never killed, only let go."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from bollard.host.clock import Clock
from bollard.host.limits import RUNTIME_ALIVE_S, WORKER_START_S
from bollard.host.workers.boundary import WorkerLog
from bollard.host.workers.channel_slot import ChannelSlot
from bollard.protocol import InitializeResult
from bollard.wire import HostEnd, RunnerCatalogue, ToolCatalogue, Transport, WireError, watch_heartbeat

__all__ = ["RemoteSlot"]


class RemoteSlot(ChannelSlot):
    """Knows how long it is there, when it was last heard, and how far away it is."""

    def __init__(self, runtime: str, clock: Clock, *, start_s: float = WORKER_START_S) -> None:
        super().__init__(runtime)
        self._clock = clock
        self._start_s = start_s
        self.connected_ms = clock.now_ms()
        self.heard_ms = self.connected_ms
        self.ping_s: float | None = None
        """How long the last ping took."""
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why it is gone, once it is."""
        self._parting: asyncio.Task[None] | None = None

    async def introduce(
        self, transport: Transport, host_version: str
    ) -> tuple[InitializeResult, RunnerCatalogue, ToolCatalogue]:
        """Who is there, and what it offers. Raises `WireError` or `TimeoutError`."""
        end = self._end = HostEnd(transport, self)
        async with asyncio.timeout(self._start_s):
            introduced = await end.initialize(host_version)
            return introduced, await end.list_runners(), await end.list_tools()

    def log_to(self, log: WorkerLog) -> None:
        """Where its lines go, now that it is known whose they are."""
        self._worker_log = log

    async def watch(self, beat: Callable[[], None]) -> str:
        """Ask again and again whether it is there; why it is not. `beat` is called each time that it is."""

        async def asked() -> None:
            await self._ping()
            beat()

        return await watch_heartbeat(asked)

    async def is_alive(self) -> bool:
        """Whether it answers, asked right now. One that has not introduced itself yet has its time for that."""
        if self._gone:
            return False
        try:
            await self._ping(timeout_s=RUNTIME_ALIVE_S)
        except WireError:
            return False
        return not self._gone

    async def _ping(self, **more: float) -> None:
        if self._end is None:
            return
        began = self._clock.monotonic()
        await self._end.ping(**more)
        self.ping_s = self._clock.monotonic() - began

    def cut(self, reason: str) -> None:
        """End the connection; its runs end with it."""
        if self._end is not None and not self._gone:
            self._end.close(reason)
        elif not self.ended.done():
            self.ended.set_result(reason)

    def dismiss(self, reason: str) -> None:
        """The same, and it need not come back: it is told to shut down, and not waited for."""
        if self._parting is not None:
            return
        if self._end is not None and not self._gone:
            self._parting = asyncio.create_task(self._shut_down(self._end))
            # After the task's first step, which sends the word.
            asyncio.get_running_loop().call_soon(self.cut, reason)
        else:
            self.cut(reason)

    @staticmethod
    async def _shut_down(end: HostEnd) -> None:
        with suppress(WireError):
            await end.shutdown(0)

    def batch_ended(self) -> None:
        self.heard_ms = self._clock.now_ms()
        super().batch_ended()

    def lost(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

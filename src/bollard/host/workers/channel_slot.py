"""A worker as it is reached over its channel: the runs that it has, what it logs, and its end. Whether it is a process
of this machine or came over the network is for whoever builds on this."""

import asyncio
import logging
from abc import ABC, abstractmethod

import structlog

from bollard.host.workers.boundary import Flushable, WorkerLog
from bollard.host.workers.masking import Mask
from bollard.protocol import JsonObject, LogRecord, PluginIdentity, ToolAnswer, ToolCallParams
from bollard.wire import HostEnd, HostRun, RunSink, Strike

__all__ = ["ChannelSlot"]

_log = structlog.get_logger("bollard.worker")


class ChannelSlot(ABC):
    """Implements `RunSlot`, and `HostObserver` of the wire."""

    def __init__(self, plugin: str, *, log: WorkerLog | None = None) -> None:
        """`plugin` names it in the host's log."""
        self._plugin = plugin
        self._worker_log = log
        self._mask = Mask()
        self._end: HostEnd | None = None
        self._gone = False
        self._touched: dict[Flushable, None] = {}
        self._active: dict[str, HostRun] = {}
        self._traces: dict[str, str | None] = {}
        """The trace of each run that it has, for what it logs."""
        self._calls = 0
        """Of tools, that it has not answered."""
        self._emptied = asyncio.Event()
        self.draining = False

    @property
    def pid(self) -> int | None:
        """Of a process of this machine."""
        return None

    @property
    def ready(self) -> bool:
        return self._end is not None and not self._gone and not self.draining

    @property
    def runs(self) -> int:
        """Runs that it was given and that have not ended."""
        return len(self._active)

    @property
    def identity(self) -> PluginIdentity:
        """What the worker says it is."""
        if self._end is None:
            raise RuntimeError("the worker is not started")
        return self._end.peer.plugin

    def start_run(self, run_id: str, request: JsonObject, sink: RunSink) -> HostRun:
        """Raises `ChannelClosed` when the worker is gone."""
        if self._end is None:
            raise RuntimeError("the worker is not started")
        run = self._end.start_run_raw(run_id, request, sink)
        self._active[run_id] = run
        self._traces[run_id] = _trace_of(request)
        run.ended.add_done_callback(lambda _: self.forget(run_id))
        return run

    async def call_tool(self, params: ToolCallParams) -> ToolAnswer:
        """Ask a tool of the plugin. A worker is not empty while one is at work. Raises `WireError`."""
        if self._end is None:
            raise RuntimeError("the worker is not started")
        self._calls += 1
        try:
            return await self._end.call_tool(params)
        finally:
            self._calls -= 1
            self._told_less()

    def touch(self, run: Flushable) -> None:
        """The run got something in this batch."""
        self._touched[run] = None

    def begin_draining(self) -> None:
        """No more runs; empty as soon as the last one has ended."""
        self.draining = True
        self._told_less()

    def forget(self, run_id: str) -> None:
        """A run has ended here, or will not: the worker counts as empty without it."""
        self._active.pop(run_id, None)
        self._traces.pop(run_id, None)
        self._told_less()

    def _told_less(self) -> None:
        if self.draining and not self._active and not self._calls:
            self._emptied.set()

    async def empty(self) -> None:
        """Wait until every run that is not abandoned and every tool has ended, or the worker is gone."""
        await self._emptied.wait()

    @abstractmethod
    def lost(self, reason: str) -> None:
        """The channel ended and nobody here wanted it to. Told once."""

    # --- what the channel tells (HostObserver) ---

    def batch_ended(self) -> None:
        touched, self._touched = self._touched, {}
        for run in touched:
            run.flush()

    def logged(self, record: LogRecord) -> None:
        _log.log(
            logging.getLevelNamesMapping().get(record.level.upper(), logging.INFO),
            self._shown(record.message),
            plugin=self._plugin,
            run=record.run_id,
            trace=self._traces.get(record.run_id or ""),
            fields=self._mask.value(record.fields),
        )
        if self._worker_log is not None:
            self._worker_log.say(
                "log",
                record.message,
                level=record.level,
                pid=self.pid,
                run_id=record.run_id,
                fields=record.fields or None,
            )

    def _shown(self, text: str) -> str:
        text = self._mask.text(text)
        return text if self._worker_log is None else self._worker_log.shown(text)

    def struck(self, strike: Strike) -> None:
        _log.warning("a worker broke the protocol", plugin=self._plugin, fault=strike.fault, detail=strike.detail)
        if self._worker_log is not None:
            text = f"it broke the protocol: {strike.fault}: {strike.detail}"
            self._worker_log.say("host", text, level="warning", pid=self.pid)

    def closed(self, reason: str) -> None:
        self.batch_ended()
        if not self._gone:
            self._gone = True
            self._emptied.set()
            self.lost(reason)


def _trace_of(request: JsonObject) -> str | None:
    """The trace that the run of this request belongs to."""
    context = request.get("context")
    runtime = context.get("runtime") if isinstance(context, dict) else None
    found = runtime.get("trace_id") if isinstance(runtime, dict) else None
    return found if isinstance(found, str) else None

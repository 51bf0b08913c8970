"""What everybody else asks of workers, whether they are processes of this machine or come over the network.

A `RunSlot` is one worker that can be given runs; a `WorkerPool` keeps those of one plugin in one workspace.
Implementations: `PluginPool` (processes), the simulator's, the tests', and whatever takes workers that connect.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from bollard.protocol import JsonObject, PluginIdentity, ToolAnswer, ToolCallParams
from bollard.wire import HostRun, RunnerCatalogue, RunSink, ToolCatalogue

# One plugin as the host knows it before any worker runs: where it is, and what pins it.


class PluginSource(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin folder or file, and how its workers are started."""

    name: str
    path: Path
    workers: int = 1
    command: tuple[str, ...] = ()
    """The command that starts a worker; empty for the Python runtime."""
    plugin_id: str | None = None
    """`author/name` that its workers must say; whatever they say where it is absent."""
    digest: str | None = None
    """The code that its workers must be of."""
    env: tuple[str, ...] | None = None
    """Variables that its workers may see; those that its manifest names where it is absent."""


PoolStatus = Literal["idle", "starting", "ready", "away", "restarting", "quarantined", "retired", "stopped"]
LineKind = Literal["log", "stdout", "stderr", "host"]
"""Who says a line: the plugin through its channel, one of its pipes, or the host about its workers."""


class Flushable(Protocol):
    """A run that wants to know when everything that arrived together was told."""

    def flush(self) -> None: ...


class RunSlot(Protocol):
    """One worker."""

    def start_run(self, run_id: str, request: JsonObject, sink: RunSink) -> HostRun:
        """Raises `ChannelClosed` when the worker is gone."""
        ...

    def touch(self, run: Flushable) -> None:
        """The run got something in this batch."""
        ...


class ToolSlot(Protocol):
    """One worker that can be asked to do something, beside its runs."""

    async def call_tool(self, params: ToolCallParams) -> ToolAnswer:
        """Raises `WireError`. Whoever stops waiting cancels the tool."""
        ...


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """One worker as an operator sees it."""

    pid: int | None
    """`None` for one that is not a process of this machine."""
    runs: int
    status: Literal["ready", "silent", "draining"]


class WorkerPool(Protocol):
    """The workers of one plugin in one workspace. Hands out one at a time, and takes back those that misbehave."""

    def pick(self) -> Any:
        """The ready worker with the fewest runs."""
        ...

    async def wait_ready(self, timeout_s: float) -> Any:
        """A worker, as soon as there is one. Raises `WorkerUnavailable`."""
        ...

    def drain(self, slot: Any, run_id: str) -> None:
        """A run on this worker ignores its cancellation: give it no more, replace it, end it when it is empty. May be
        said again, and of a worker that is gone."""
        ...


class SupervisedPool(WorkerPool, Protocol):
    """A pool as the fleet keeps it: it can be watched, restarted and ended."""

    crashes: int
    """Workers that were lost, ever."""

    @property
    def source(self) -> PluginSource: ...

    @property
    def pids(self) -> list[int]:
        """The processes of this machine among its workers."""
        ...

    @property
    def status(self) -> PoolStatus: ...

    @property
    def problem(self) -> str | None:
        """Why it gets no worker any more."""
        ...

    @property
    def views(self) -> list[WorkerView]: ...

    @property
    def recent_crashes(self) -> int: ...

    def start(self) -> None:
        """Begin to have workers; returns at once."""
        ...

    async def prove(self) -> str | None:
        """Start, and wait until the first worker is there; or why it could not be."""
        ...

    def restart(self) -> None:
        """Leave the quarantine, or replace every worker."""
        ...

    async def retire(self) -> None:
        """Give out nothing any more, and end when the last run has."""
        ...

    async def stop(self, grace_s: float) -> None: ...


class WorkerLog(Protocol):
    """Where what workers say goes, beside the host's own log."""

    def hide(self, secrets: Iterable[str]) -> None:
        """Values that must not be shown."""
        ...

    def shown(self, text: str) -> str:
        """A text without what must not be shown."""
        ...

    def say(
        self,
        kind: LineKind,
        text: str,
        *,
        level: str = "info",
        pid: int | None = None,
        run_id: str | None = None,
        fields: JsonObject | None = None,
    ) -> None: ...


Discovered = Callable[[PluginIdentity, RunnerCatalogue, ToolCatalogue], None]
"""Told what a worker says it is and offers; before it is given any run."""

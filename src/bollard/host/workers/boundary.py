"""The interface of workers, for processes of this machine and for remote workers.

A `RunSlot` is one worker. A `WorkerPool` has the workers of one plugin in one workspace. `PluginPool` implements it
with processes; the simulator and the tests have their own.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from bollard.host.reason import Why
from bollard.protocol import JsonObject, PluginIdentity, PluginSandbox, ToolAnswer, ToolCallParams
from bollard.wire import HostRun, RunnerCatalogue, RunSink, ToolCatalogue


class PluginSource(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin folder or file, and how its workers are started."""

    name: str
    path: Path
    workers: int = 1
    command: tuple[str, ...] = ()
    """The command that starts a worker. If it is empty, that of the manifest (unless `env` is given) or the Python
    runtime."""
    plugin_id: str | None = None
    """The `author/name` that its workers must report. `None` accepts any."""
    version: str | None = None
    """The version of its manifest, which its workers must state. `None` accepts any if `env` is given."""
    digest: str | None = None
    """The digest that the code of its workers must have."""
    env: tuple[str, ...] | None = None
    """Environment variables for its workers. `None` reads the manifest at each start."""
    sandbox: PluginSandbox | None = None
    """What its workers may use beyond nothing. `None` reads the manifest at each start."""


PoolStatus = Literal["idle", "starting", "ready", "away", "restarting", "quarantined", "retired", "stopped"]
LineKind = Literal["log", "stdout", "stderr", "host"]
"""The source of a log line: the plugin over its connection, one of its pipes, or the host."""


class Flushable(Protocol):
    """A run that is flushed at the end of each batch."""

    def flush(self) -> None: ...


class RunSlot(Protocol):
    """One worker."""

    def start_run(self, run_id: str, request: JsonObject, sink: RunSink) -> HostRun:
        """Start a run. Raises `ChannelClosed` if the worker is gone."""
        ...

    def touch(self, run: Flushable) -> None:
        """The run received something in this batch."""
        ...

    def explain_failure(self, error: str) -> str:
        """The error of a run, with the permission whose lack explains it."""
        ...


class ToolSlot(Protocol):
    """One worker that can execute tools beside its runs."""

    async def call_tool(self, params: ToolCallParams) -> ToolAnswer:
        """Call a tool. Cancelling this cancels the tool. Raises `WireError`."""
        ...


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """One worker as an operator sees it."""

    pid: int | None
    """`None` for a worker on another machine."""
    runs: int
    status: Literal["ready", "silent", "draining"]


class WorkerPool(Protocol):
    """The workers of one plugin in one workspace."""

    def pick(self) -> Any:
        """The ready worker with the fewest runs."""
        ...

    async def wait_ready(self, timeout_s: float) -> Any:
        """Wait for a ready worker. Raises `WorkerUnavailable`."""
        ...

    def drain(self, slot: Any, run_id: str) -> None:
        """Give this worker no more runs, replace it, and end it when it is empty, because a run ignores its
        cancellation. Idempotent."""
        ...


class SupervisedPool(WorkerPool, Protocol):
    """A pool as the fleet manages it."""

    crashes: int
    """How many workers were lost."""

    @property
    def source(self) -> PluginSource: ...

    @property
    def pids(self) -> list[int]:
        """The workers that are processes of this machine."""
        ...

    @property
    def status(self) -> PoolStatus: ...

    @property
    def problem(self) -> Why | None:
        """Why the plugin is quarantined, if it is."""
        ...

    @property
    def views(self) -> list[WorkerView]: ...

    @property
    def recent_crashes(self) -> int: ...

    def start(self) -> None:
        """Start the workers in the background."""
        ...

    async def prove(self) -> Why | None:
        """Start, and wait for the first worker. Returns the problem if it cannot start."""
        ...

    def restart(self) -> None:
        """Leave the quarantine and replace every worker."""
        ...

    async def retire(self) -> None:
        """Take no more runs, and end when the last run has ended."""
        ...

    async def stop(self, grace_s: float) -> None: ...


class WorkerLog(Protocol):
    """The log of a plugin, beside the log of the host."""

    def hide(self, secrets: Iterable[str]) -> None:
        """Add values to redact."""
        ...

    def shown(self, text: str) -> str:
        """The redacted text."""
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
"""Called with the runners and tools of a worker, before it gets any run."""


class Confined(Protocol):
    """One process in its sandbox."""

    @property
    def argv(self) -> list[str]:
        """The command line that enters the sandbox."""
        ...

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that it inherits besides its connection."""
        ...

    @property
    def memory_kills(self) -> int:
        """How many of its processes were killed because its memory was used up."""
        ...

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """Its variables: the given ones, with its own home and proxy."""
        ...

    async def start(self) -> None:
        """The process was started."""
        ...

    def find_program(self, leader: int) -> int:
        """The pid of the worker, given that of the started process."""
        ...

    def explain(self, lines: Sequence[str]) -> Why | None:
        """The permission whose lack explains these lines of an error, also after its end."""
        ...

    async def close(self) -> None:
        """The process has ended: remove everything that is left of it."""
        ...


Confine = Callable[[PluginSource, PluginSandbox, Sequence[str]], Awaitable[Confined | None]]
"""Prepares the sandbox of a worker with this command line; `None` if workers are not confined."""


async def unconfined(source: PluginSource, sandbox: PluginSandbox, argv: Sequence[str]) -> None:
    """Workers have the rights of the host's user."""
    del source, sandbox, argv

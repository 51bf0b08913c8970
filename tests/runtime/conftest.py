"""A real worker process and a host's end that drives it, for every test of this suite."""

import asyncio
import inspect
import itertools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from bollard.protocol import AgentAPIError, JsonObject, JsonValue, LogRecord, ToolAnswer, ToolCallParams, runner_id
from bollard.wire import (
    Delta,
    HostEnd,
    HostRun,
    RunCall,
    RunEnd,
    Strike,
    Transport,
    WorkerProcess,
    WorkerResult,
    spawn_worker,
    worker_environment,
)

SECONDS = 60.0
"""Longest wait for anything that a test expects."""
HEADER = "import asyncio, os, sys, time\nfrom bollard.sdk import Result, RunContext, runner, tool\n"
_numbers = itertools.count(1)

Answerer = Callable[[RunCall], Any]
"""Returns the answer, an error, an awaitable of either, or `None` to leave the call open."""


def context(run_id: str, config: JsonObject, text: str | None) -> JsonObject:
    return {
        "run_id": run_id,
        "trigger": {"type": "message.received", "source": "api"},
        "event": {"event_id": f"e-{run_id}", "event_type": "message.received", "source": "api", "data": {}},
        "input": {"text": text, "contents": [], "attachments": []} if text is not None else {},
        "delivery": {"surface": "test"},
        "config": config,
    }


class Played:
    """One run and all its results, in order."""

    def __init__(self, driver: "Driver", run_id: str, *, credited: bool, api: Mapping[str, Answerer]) -> None:
        self.run_id = run_id
        self.credited = credited
        self.results: list[WorkerResult] = []
        self.gaps: list[tuple[int, int]] = []
        self.refusals: list[tuple[int, str]] = []
        self.strikes: list[Strike] = []
        self.calls: list[RunCall] = []
        self.given_up: list[str] = []
        self.handle: HostRun
        self._driver = driver
        self._api = api
        self._tasks: set[asyncio.Task[None]] = set()

    # --- RunSink ---

    def delta(self, delta: Delta, size: int) -> None:
        wire: Any = delta.to_wire()
        self.result(WorkerResult(delta.run_id, "message.delta", wire["data"], delta.sequence, None, size))

    def result(self, result: WorkerResult) -> None:
        self.results.append(result)
        self._driver.tell()

    def gap(self, first: int, last: int) -> None:
        self.gaps.append((first, last))

    def refused(self, sequence: int, why: Literal["late", "too_large"]) -> None:
        self.refusals.append((sequence, why))

    def called(self, call: RunCall) -> None:
        self.calls.append(call)
        call.on_given_up = lambda: self._gave_up(call)
        if call.action in self._api:
            task = asyncio.create_task(self._answer(call, self._api[call.action]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._driver.tell()

    def crowded(self, call: RunCall, times: int) -> None:
        self._driver.tell()

    def struck(self, strike: Strike) -> None:
        self.strikes.append(strike)
        self._driver.tell()

    def ended(self, end: RunEnd) -> None:
        self._driver.tell()

    # --- what tests ask ---

    async def end(self, seconds: float = SECONDS) -> RunEnd:
        async with asyncio.timeout(seconds):
            return await asyncio.shield(self.handle.ended)

    async def until(self, count: int) -> None:
        await self._driver.until(lambda: len(self.results) >= count)

    @property
    def text(self) -> str:
        return "".join(r.data["chunk"]["content"] for r in self.results if r.type == "message.delta")  # type: ignore[index,call-overload,misc]

    @property
    def types(self) -> list[str]:
        return [result.type for result in self.results]

    @property
    def last(self) -> WorkerResult:
        return self.results[-1]

    @property
    def is_well_formed(self) -> bool:
        """Numbered 1 to n without hole, one terminal result and that last, no strike."""
        terminal = [result.type in ("run.completed", "run.failed") for result in self.results]
        return (
            [result.sequence for result in self.results] == list(range(1, len(self.results) + 1))
            and terminal.count(True) == 1
            and terminal[-1]
            and not (self.gaps or self.refusals or self.strikes)
        )

    def _gave_up(self, call: RunCall) -> None:
        self.given_up.append(call.action)
        self._driver.tell()

    async def _answer(self, call: RunCall, answerer: Answerer) -> None:
        answer = answerer(call)
        self._driver.tell()
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, AgentAPIError):
            call.refuse(answer)
        elif answer is not None:
            call.answer(answer)


class Driver:
    """A worker and its host's end. Gives credit after each batch, for the runs that are to have it."""

    def __init__(self) -> None:
        self.logs: list[LogRecord] = []
        self.lines: list[tuple[str, str]] = []
        self.strikes: list[Strike] = []
        self.closed_because: str | None = None
        self.runs: dict[str, Played] = {}
        self.host: HostEnd
        self.process: WorkerProcess
        self._news = asyncio.Event()

    # --- HostObserver ---

    def logged(self, record: LogRecord) -> None:
        self.logs.append(record)
        self.tell()

    def struck(self, strike: Strike) -> None:
        self.strikes.append(strike)
        self.tell()

    def batch_ended(self) -> None:
        for run in self.runs.values():
            if run.credited and not run.handle.ended.done() and run.results:
                run.handle.credit(run.results[-1].sequence)

    def closed(self, reason: str) -> None:
        self.closed_because = reason
        self.tell()

    # --- what tests do ---

    def tell(self) -> None:
        self._news.set()

    def output(self, stream: Literal["stdout", "stderr"], line: str) -> None:
        self.lines.append((stream, line))
        self.tell()

    async def connect(self, transport: Transport) -> None:
        self.host = HostEnd(transport, self)
        await self.host.initialize("test")

    def play(
        self,
        runner: str = "default",
        config: JsonObject | None = None,
        *,
        text: str | None = "hi",
        run_id: str | None = None,
        credited: bool = True,
        api: Mapping[str, Answerer] | None = None,
    ) -> Played:
        run_id = run_id or f"r-{next(_numbers)}"
        plugin = self.host.peer.plugin
        request: JsonObject = {
            "runner_id": runner_id(plugin.author, plugin.name, runner),
            "runner_name": runner,
            "context": context(run_id, config or {}, text),
        }
        return self.play_raw(request, run_id, credited=credited, api=api)

    def play_raw(
        self, request: JsonObject, run_id: str, *, credited: bool = True, api: Mapping[str, Answerer] | None = None
    ) -> Played:
        played = Played(self, run_id, credited=credited, api=api or {})
        self.runs[run_id] = played
        played.handle = self.host.start_run_raw(run_id, request, played)
        return played

    async def finished(self, *args: Any, **options: Any) -> Played:
        """Play a run to its end."""
        played = self.play(*args, **options)
        await played.end()
        return played

    async def call_tool(
        self, tool: str, arguments: JsonObject, *, call_id: str | None = None, timeout_ms: int = 10_000
    ) -> ToolAnswer:
        return await self.host.call_tool(
            ToolCallParams.from_wire(
                {
                    "call_id": call_id or f"c-{next(_numbers)}",
                    "tool": tool,
                    "arguments": arguments,
                    "timeout_ms": timeout_ms,
                    "context": {"run_id": "tool-run", "workspace_id": "w", "agent_id": "a"},
                }
            )
        )

    async def until(self, found: Callable[[], object], seconds: float = SECONDS) -> None:
        async with asyncio.timeout(seconds):
            while not found():
                self._news.clear()
                await self._news.wait()

    async def logged_line(self, text: str) -> LogRecord:
        """The first log record that contains the text."""
        await self.until(lambda: any(text in record.message for record in self.logs))
        return next(record for record in self.logs if text in record.message)

    async def written_line(self, text: str) -> tuple[str, str]:
        """The first line on a pipe that contains the text."""
        await self.until(lambda: any(text in line for _, line in self.lines))
        return next(line for line in self.lines if text in line[1])

    async def exit_code(self, seconds: float = SECONDS) -> int:
        async with asyncio.timeout(seconds):
            return await self.process.wait()

    @property
    def stderr(self) -> str:
        return "\n".join(line for stream, line in self.lines if stream == "stderr")

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Rule and place of the plugin's problems, as reported to the host."""
        return [
            (str(record.fields["rule"]), record.message.partition(":")[0])
            for record in self.logs
            if "rule" in record.fields
        ]


Start = Callable[..., Awaitable[Driver]]


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of a worker of these tests: the allow-list, with a locale that Python leaves alone."""
    return {**worker_environment(os.environ), "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes the files of a plugin and returns its path: a folder of that name, or one Python file."""

    def write(name: str, files: str | Mapping[str, str | bytes]) -> Path:
        if isinstance(files, str):
            path = tmp_path / name
            path.write_text(HEADER + files)
            return path
        folder = tmp_path / name
        for file, text in files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return folder

    return write


@pytest.fixture
def header() -> str:
    """The imports that `write` puts above a single-file plugin."""
    return HEADER


@pytest.fixture
def make_context() -> Callable[[str, JsonObject, str | None], JsonObject]:
    return context


@pytest.fixture
async def launch(environment: dict[str, str]) -> AsyncIterator[Start]:
    """Starts worker processes; the rest of them is killed at the end."""
    started: list[Driver] = []

    async def launch(
        *arguments: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        options: tuple[str, ...] = ("-P",),
    ) -> Driver:
        driver = Driver()
        driver.process = await spawn_worker(
            [sys.executable, *options, "-m", "bollard.runtime", *arguments],
            environment={**environment, **(env or {})},
            output=driver.output,
            cwd=cwd,
        )
        started.append(driver)
        return driver

    yield launch
    for driver in started:
        await driver.process.kill()


@pytest.fixture
async def start(launch: Start, write: Callable[..., Path]) -> Start:
    """Starts a worker on a plugin given as text (one file), as files (a folder) or as a path, and initializes it."""

    async def start(
        plugin: str | Path | Mapping[str, str | bytes],
        name: str = "",
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Driver:
        if isinstance(plugin, Path):
            path = plugin
        else:
            path = write(name or ("plugin.py" if isinstance(plugin, str) else "folder"), plugin)
        driver = await launch(str(path), env=env, cwd=cwd)
        await driver.connect(driver.process.transport)
        return driver

    return start


@pytest.fixture
def say() -> Callable[[JsonValue], Answerer]:
    """An answerer that always gives the same answer."""
    return lambda answer: lambda _: answer


@pytest.fixture
def make_driver() -> Callable[[], Driver]:
    """A host's end without a process, for a worker that dials."""
    return Driver

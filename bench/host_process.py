"""The servers under measurement, each a process of its own: the floor, and the host as a user starts it."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from load import Call, Connection

__all__ = [
    "NO_VARIABLES",
    "PLUGINS",
    "PROGRAM",
    "Floor",
    "HostProcess",
    "Installation",
    "TraceSink",
    "floor_running",
    "host_running",
    "trace_sink_running",
]

BENCH = Path(__file__).parent
PLUGINS = (BENCH / "plugins" / "benchecho.py", BENCH / "plugins" / "benchflood.py")
PROGRAM = Path(sys.executable).with_name("bollard")
NO_VARIABLES: Mapping[str, str] = {}
START_S = 60
STOP_S = 30
PAUSE_S = 0.01


@dataclass(slots=True, kw_only=True)
class Installation:
    """The lasting parts of a host: its directory, its database, and the token of its first start."""

    data: Path
    database: str = ""
    token: str = ""


class Floor:
    """The floor as a target."""

    def __init__(self, port: int) -> None:
        self.port = port

    def call(self, client: int, deltas: int) -> Call:
        del client
        return Call(
            path="/echo",
            headers={"content-type": "application/json"},
            body=b'{"n":%d}' % deltas,
            delta_mark=b'"tok-',
            final_mark=b"FINAL-ANSWER",
        )


class TraceSink:
    """The collector of a traced host."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}

    async def taken(self) -> int:
        """Bytes of spans so far."""
        connection = Connection(self._port)
        _, chunks = await connection.request("GET", "/", {})
        text = b"".join([chunk async for chunk in chunks])
        connection.close()
        return int(text)


class HostProcess:
    """A host as a target, with the cost of its processes."""

    def __init__(self, pid: int, port: int, token: str, ready_s: float) -> None:
        self.port = port
        self.ready_s = ready_s
        """From before the process was created until it was ready."""
        self._agents: asyncio.Queue[str] = asyncio.Queue()
        self.headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
        self._stream_headers = {**self.headers, "accept": "text/event-stream"}
        self._process = psutil.Process(pid)
        self.in_conversations = False
        """Whether each client uses a conversation of its own."""

    def call(self, client: int, deltas: int) -> Call:
        asked: dict[str, object] = {"agent": "benchecho", "input": {"text": "hi"}, "data": {"deltas": deltas}}
        if self.in_conversations:
            asked["conversation"] = f"bench-{client}"
        return Call(
            path="/api/v1/runs",
            headers=self._stream_headers,
            body=json.dumps(asked).encode(),
            delta_mark=b'"content":"tok-',
            final_mark=b'"status":"completed"',
        )

    async def wait_for_agents(self, *agents: str) -> None:
        awaited = set(agents)
        async with asyncio.timeout(START_S):
            while awaited:
                awaited.discard(await self._agents.get())

    def has_agent(self, agent: str) -> None:
        """The host reported the event."""
        self._agents.put_nowait(agent)

    async def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] = NO_VARIABLES) -> Any:
        """One call of the API whose answer is JSON."""
        connection = Connection(self.port)
        sent = b"" if body is None else json.dumps(body).encode()
        status, chunks = await connection.request(method, path, {**self.headers, **headers}, sent)
        text = b"".join([chunk async for chunk in chunks])
        connection.close()
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {text.decode()}")
        return json.loads(text)

    async def start_run(self, agent: str, **data: float) -> str:
        """A run without readers."""
        answer = await self.ask("POST", "/api/v1/runs", {"agent": agent, "input": {"text": "hi"}, "data": data})
        return answer["run_id"]

    async def status_of(self, run_id: str) -> str:
        return (await self.ask("GET", f"/api/v1/runs/{run_id}"))["status"]

    async def wait_for(self, run_id: str, *statuses: str) -> None:
        async def reached() -> bool:
            return await self.status_of(run_id) in statuses

        await _until(reached)

    async def wait_for_record(self, run_id: str, kind: str) -> None:
        """Wait until a record of this type is on disk."""

        async def written() -> bool:
            page = await self.ask("GET", f"/api/v1/runs/{run_id}/records")
            return any(record["type"] == kind for record in page["items"])

        await _until(written)

    async def cancel(self, run_id: str) -> None:
        await self.ask("POST", f"/api/v1/runs/{run_id}/cancel", {})
        await self.wait_for(run_id, "cancelled", "timeout", "failed", "completed")

    def cpu_s(self) -> float:
        """CPU of the host so far, without its workers."""
        return sum(times.user + times.system for times in (process.cpu_times() for process in self._own()))

    def cpu_with_workers_s(self) -> float:
        """CPU of the host and of everything below it so far."""
        times = [each.cpu_times() for each in (self._process, *self._process.children(recursive=True))]
        return sum(each.user + each.system for each in times)

    def rss_mib(self) -> float:
        """Resident memory of the host, without its workers."""
        return sum(process.memory_info().rss for process in self._own()) / 2**20

    def _own(self) -> list[psutil.Process]:
        children = self._process.children(recursive=True)
        return [self._process, *(child for child in children if not _is_worker(child.cmdline()))]


def _is_worker(command: Sequence[str]) -> bool:
    """Whether it is a worker, or a process that waits for a confined one."""
    return "bollard.runtime" in command or any("bollard.confine.launch_process" in part for part in command)


@asynccontextmanager
async def floor_running(directory: Path) -> AsyncGenerator[Floor]:
    """The floor, with its database in `directory`."""
    port = _free_port()
    command = [sys.executable, "-m", "uvicorn", "host_floor:app", "--app-dir", str(BENCH), "--port", str(port)]
    command += ["--loop", "uvloop", "--log-level", "warning", "--no-access-log"]
    process = await asyncio.create_subprocess_exec(*command, cwd=directory)
    try:
        await _until(partial(_answers, port))
        yield Floor(port)
    finally:
        await _stop(process)


@asynccontextmanager
async def trace_sink_running() -> AsyncGenerator[TraceSink]:
    """A collector of spans in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(BENCH / "trace_sink.py"), stdout=asyncio.subprocess.PIPE
    )
    try:
        if process.stdout is None:
            raise RuntimeError("no pipe")
        yield TraceSink(int(await process.stdout.readline()))
    finally:
        await _stop(process)


@asynccontextmanager
async def host_running(
    installed: Installation,
    *,
    plugins: Sequence[Path] = PLUGINS,
    variables: Mapping[str, str] = NO_VARIABLES,
    program: Path = PROGRAM,
) -> AsyncGenerator[HostProcess]:
    """A host that is ready. Its agents follow a moment later."""
    environment = os.environ | {
        "BOLLARD_BUILTIN_PLUGINS": "false",
        "BOLLARD_LOG_LEVEL": "warning",
        "XDG_CONFIG_HOME": str(installed.data / "config"),  # the user's own credentials must not be used
        **variables,
    }
    command = [str(program), "up", "--data", str(installed.data), "--port", "0"]
    for plugin in plugins:
        command += ["--plugins", str(plugin)]
    if installed.database:
        command += ["--database", installed.database]
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, cwd=installed.data, stdout=asyncio.subprocess.PIPE
    )
    reading: asyncio.Task[None] | None = None
    try:
        async with asyncio.timeout(START_S):
            port = await _listening(process)
            if not installed.token:
                installed.token = (await _said(process, "token"))["token"]
            await _until(partial(_answers, port, "/readyz"))
        host = HostProcess(process.pid, port, installed.token, time.perf_counter() - started)
        reading = asyncio.create_task(_read_agents(process, host))
        yield host
    finally:
        if reading is not None:
            reading.cancel()
        await _stop(process)


async def _listening(process: asyncio.subprocess.Process) -> int:
    return int((await _said(process, "listening"))["address"].rpartition(":")[2])


async def _said(process: asyncio.subprocess.Process, event: str) -> dict[str, Any]:
    """The next line of the host about this event."""
    if process.stdout is None:
        raise RuntimeError("no pipe")
    while line := await process.stdout.readline():
        said = json.loads(line)
        if said["event"] == event:
            return said
    raise RuntimeError(f"the host ended before it said {event!r}")


async def _read_agents(process: asyncio.subprocess.Process, host: HostProcess) -> None:
    while True:
        host.has_agent((await _said(process, "agent.ready"))["agent"])


async def _until(true: Callable[[], Awaitable[bool]]) -> None:
    """Poll, because another process cannot notify us."""
    async with asyncio.timeout(START_S):
        while not await true():  # noqa: ASYNC110
            await asyncio.sleep(PAUSE_S)


async def _answers(port: int, path: str = "/") -> bool:
    connection = Connection(port)
    try:
        status, _ = await connection.request("GET", path, {})
    except OSError:
        return False
    finally:
        connection.close()
    return status == 200


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.communicate(), STOP_S)
        except TimeoutError:
            process.kill()
            await process.communicate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

"""A real host process that is killed, the clients that talk to it over HTTP, and what they were told."""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.ports import free_port

from bollard.host.clock import SystemClock
from bollard.host.limits import HOUSEKEEPING_S
from bollard.host.log.rebuild import rebuild
from bollard.host.runs.hub import StreamRecord
from bollard.host.simulator.history import History, View
from bollard.host.simulator.ledger import chain_problems, run_problems
from bollard.host.store.boundary import Store
from bollard.host.store.opening import choose_store
from bollard.trust import load_or_make_signing_key

HERE = Path(__file__).parent
PATIENCE_S = 30.0
BROKEN = (OSError, EOFError, asyncio.IncompleteReadError)


class Answer:
    """One HTTP response: its head, and its body as it comes."""

    def __init__(self, status: int, headers: dict[str, str], reader: asyncio.StreamReader) -> None:
        self.status = status
        self.headers = headers
        self._reader = reader

    async def body(self) -> AsyncIterator[bytes]:
        """The pieces of the body; raises one of `BROKEN` when the connection breaks before its end."""
        if "content-length" in self.headers:
            yield await self._reader.readexactly(int(self.headers["content-length"]))
            return
        while left := int((await self._reader.readuntil(b"\r\n")).strip(), 16):
            while left:  # what has come counts, also of a chunk that is cut
                piece = await self._reader.read(left)
                if not piece:
                    raise EOFError("the connection ended inside a chunk")
                left -= len(piece)
                yield piece
            await self._reader.readexactly(2)

    async def json(self) -> Any:
        return json.loads(b"".join([piece async for piece in self.body()]))

    async def events(self) -> AsyncIterator[StreamRecord]:
        """The events of a stream."""
        buffer = b""
        async for piece in self.body():
            buffer += piece
            while b"\n\n" in buffer:
                event, buffer = buffer.split(b"\n\n", 1)
                if not event.startswith(b":"):
                    yield _record(event)


def _record(event: bytes) -> StreamRecord:
    fields = dict(line.split(b": ", 1) for line in event.split(b"\n"))
    epoch, _, seq = fields.get(b"id", b"0.0").partition(b".")
    return StreamRecord(int(epoch), int(seq), fields[b"event"].decode(), fields[b"data"])


class Client:
    """Speaks HTTP to one port. Every request has a connection of its own."""

    def __init__(self, port: int, token: Callable[[], str]) -> None:
        self.port = port
        self._token = token

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> AsyncIterator[Answer]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            content = b"" if body is None else json.dumps(body).encode()
            lines = [f"{method} {path} HTTP/1.1", "host: localhost", "connection: close"]
            lines += [f"authorization: Bearer {self._token()}", f"content-length: {len(content)}"]
            lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + content)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            pairs = (line.split(": ", 1) for line in head[1:] if line)
            yield Answer(int(head[0].split()[1]), {name.lower(): value for name, value in pairs}, reader)
        finally:
            writer.close()

    async def get(self, path: str) -> Any:
        async with self.request("GET", path) as answer:
            assert answer.status == 200, await answer.json()
            return await answer.json()

    async def post(self, path: str, body: Any) -> Any:
        async with self.request("POST", path, body) as answer:
            found = await answer.json()
            assert answer.status in (200, 202), found
            return found

    async def watch(self, view: View) -> None:
        """Read on where the view stands, until the run has ended or the connection has."""
        headers = {"last-event-id": view.place} if view.place else {}
        async with self.request("GET", f"/api/v1/runs/{view.run_id}/stream", headers=headers) as answer:
            assert answer.status == 200, await answer.json()
            async for record in answer.events():
                view.see(record)

    async def run(self, agent: str, data: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
        """One run from its event to its end: all its records."""
        body = {"agent": agent, "input": {"text": "hello"}, "data": data, **fields}
        async with asyncio.timeout(PATIENCE_S):
            async with self.request("POST", "/api/v1/runs", body, {"accept": "text/event-stream"}) as answer:
                assert answer.status == 200, await answer.json()
                return [json.loads(record.json) async for record in answer.events()]


class HostProcess:
    """A host that can be started, killed and started again on the same data and port."""

    def __init__(
        self,
        data: Path,
        plugins: list[Path],
        *,
        commands: dict[str, list[str]] | None = None,
        runs_at_once: int = 64,
        deadline_s: dict[str, float] | None = None,
        retention_s: dict[str, float] | None = None,
        housekeeping_s: float = HOUSEKEEPING_S,
        environment: dict[str, str] | None = None,
        inside: list[str] | None = None,
        seen_at: Path | None = None,
    ) -> None:
        self.data = seen_at or data  # where it is from here, for a host that runs `inside` namespaces of its own
        self._own_data = data
        self._logs = data.parent / f"{data.name}.logs"
        self._environment = environment or {}
        self._inside = inside or []
        self.port = free_port()
        self.client = Client(self.port, self._token)
        self.started_s: list[float] = []
        self._options = {
            "plugins": [str(path) for path in plugins],
            "commands": commands or {},
            "runs_at_once": runs_at_once,
            "deadline_s": deadline_s or {},
            "retention_s": retention_s or {},
            "housekeeping_s": housekeeping_s,
        }
        self._process: asyncio.subprocess.Process | None = None
        self._drain: asyncio.Task[None] | None = None
        data.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(exist_ok=True)

    def _token(self) -> str:
        return (self.data / "token").read_text()

    def client_at(self, port: int) -> Client:
        return Client(port, self._token)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def command(self) -> list[str]:
        # A host takes over what the other kind of journal left, in turn.
        journal = "thread" if len(self.started_s) % 2 else "process"
        options = {"data": str(self._own_data), "port": self.port, "journal": journal, **self._options}
        return [sys.executable, str(HERE / "launch.py"), json.dumps(options)]

    def listens(self, line: bytes) -> bool:
        return line == b"listening\n"

    async def start(self, kill_point: str = "") -> None:
        """Returns when the host listens, or when it died before at its kill point."""
        environment = {**os.environ, **self._environment, "BOLLARD_KILL_POINT": kill_point}
        begun = time.monotonic()
        with (self._logs / "stderr").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._inside,
                *self.command(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            line = b"-"
            while line and not self.listens(line):  # log lines come before it
                line = await self._process.stdout.readline()
        assert line or kill_point, (self._logs / "stderr").read_text()[-2000:]
        self.started_s.append(time.monotonic() - begun)
        self._drain = asyncio.create_task(self._swallow(self._process.stdout))

    async def _swallow(self, output: asyncio.StreamReader) -> None:
        with (self._logs / "stdout").open("ab") as log:
            while piece := await output.read(65536):
                log.write(piece)

    async def died(self) -> int:
        """Wait for its end; the exit code."""
        assert self._process is not None
        async with asyncio.timeout(PATIENCE_S):
            code = await self._process.wait()
            if self._drain is not None:
                await self._drain
        return code

    async def end(self, how: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(how)
        await self.died()

    async def kill(self) -> None:
        await self.end(signal.SIGKILL)

    async def ready(self, *agents: str) -> None:
        """Wait until these agents are known: their workers have introduced themselves."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if (await self._agents()).issuperset(agents):
                    return
                await asyncio.sleep(0.02)

    async def _agents(self) -> set[str]:
        known, cursor = set[str](), ""
        while True:
            page = await self.client.get(f"/api/v1/agents?limit=100{cursor}")
            known |= {item["agent_id"] for item in page["items"]}
            if not page["has_more"]:
                return known
            cursor = f"&cursor={page['next_cursor']}"

    async def health(self) -> dict[str, Any]:
        """What the host says of itself."""
        async with self.client.request("GET", "/readyz") as answer:
            return await answer.json()

    async def plugin(self, name: str) -> dict[str, Any]:
        """What the host says of a plugin."""
        return (await self.health())["plugins"][name]

    def worker(self, plugin: Path) -> psutil.Process:
        """The one worker of a plugin."""
        children = psutil.Process(self.pid).children(recursive=True)
        (found,) = [child for child in children if str(plugin) in child.cmdline()]
        return found

    async def until_plugin(self, name: str, status: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            while (found := await self.plugin(name))["status"] != status:  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.05)
        return found

    def open_store(self) -> Store:
        store = choose_store("", self.data, SystemClock())
        store.open()
        return store


def scripted_plan(dice: random.Random, event_id: str) -> dict[str, Any]:
    """A run of some size."""
    del event_id
    return {
        "deltas": dice.choice([0, 3, 40, 200]),
        "pause_ms": dice.choice([0, 0, 5, 20]),
        "state": dice.random() < 0.3,
        "artifact": dice.random() < 0.3,
        "raises": dice.random() < 0.1,
    }


class Chaos:
    """Clients that keep a host busy, and the judge of what they were told."""

    def __init__(
        self,
        host: HostProcess,
        seed: int,
        *,
        agent: str = "scripted",
        plan: Callable[[random.Random, str], dict[str, Any]] = scripted_plan,
        again: float = 0.2,
        history: History | None = None,
    ) -> None:
        self.host = host
        self.random = random.Random(seed)
        self.history = history or History()
        self.events: dict[str, dict[str, Any]] = {}
        """Every event that was ever sent, acknowledged or not."""
        self._agent = agent
        self._plan = plan
        self._again = again
        """How often an event that was sent before is sent again."""

    def new_event(self) -> str:
        """An event that is planned by the seed, with an id of its own."""
        event_id = f"e{len(self.events)}"
        self.events[event_id] = self._plan(self.random, event_id)
        return event_id

    async def deliver(self, event_id: str) -> str:
        """Post an event, again or for the first time; the run it became."""
        plan = self.events[event_id]
        body = {"source": "chaos", "id": event_id, "type": "message.received", "agent": self._agent, "data": plan}
        body["text"] = plan.get("text", "go")
        found = await self.host.client.post("/api/v1/events", body)
        self.history.acknowledged("chaos", event_id, found["run_id"])
        return found["run_id"]

    async def busy(self) -> None:
        """One client until the host dies: new events, old events again, streams. Ends with one of `BROKEN`."""
        while True:
            known = list(self.events)
            again = bool(known) and self.random.random() < self._again
            run_id = await self.deliver(self.random.choice(known) if again else self.new_event())
            if self.random.random() < 0.8:
                await self.host.client.watch(self.history.view(run_id))

    async def storm(self, clients: int) -> None:
        """Several clients until the host dies."""
        tasks = [asyncio.create_task(self.busy()) for _ in range(clients)]
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(outcome, BROKEN), repr(outcome)

    async def settle(self, within_s: float) -> None:
        """Every reader gets to the end of its run, and every event delivered again gets its first run."""
        async with asyncio.timeout(within_s):
            await asyncio.gather(*(self.host.client.watch(view) for view in self.history.views if not view.ended))
            for event_id in self.events:
                await self.host.client.watch(self.history.view(await self.deliver(event_id)))

    def problems(self) -> list[str]:
        """What is wrong with what the host left on disk."""
        return self.inspect(run_problems)

    def inspect(self, *judges: Callable[[Store], Iterable[str]]) -> list[str]:
        """What these judges find wrong with it, the chain, and everybody who was told something."""
        store = self.host.open_store()
        try:
            key = load_or_make_signing_key(self.host.data / "keys" / "heads.ed25519").verify_key
            found = [*chain_problems(store, key), *self.history.disagreements(store)]
            found += [problem for judge in judges for problem in judge(store)]
            before = store.dump_projections()
            rebuild(store)
            after = store.dump_projections()
            found += [f"a rebuild changes {table}" for table in before if before[table] != after[table]]
            return found
        finally:
            store.close()


@pytest.fixture(scope="session")
def seed() -> int:
    return int(os.environ.get("CHAOS_SEED", "1"))


@pytest.fixture
def rounds() -> int:
    """How often the host is killed; the short form is what every commit runs."""
    return int(os.environ.get("CHAOS_ROUNDS", "4"))


@pytest.fixture
def repeats(rounds: int) -> int:
    """How often a fault is repeated that takes seconds: once in what every commit runs."""
    return max(1, rounds // 4)


@pytest.fixture(scope="session")
def scripted() -> Path:
    return HERE / "scripted.py"


@pytest.fixture(scope="session")
def host_class() -> type[HostProcess]:
    return HostProcess


@pytest.fixture
async def make_host(tmp_path: Path) -> AsyncIterator[Callable[..., HostProcess]]:
    """Makes hosts, and ends those that are left."""
    made: list[HostProcess] = []

    def make(*plugins: Path, data: Path | None = None, **options: Any) -> HostProcess:
        host = HostProcess(data or tmp_path / f"data{len(made)}", list(plugins), **options)
        made.append(host)
        return host

    yield make
    for host in made:
        if host._process is not None and host._process.returncode is None:
            await host.kill()


@pytest.fixture(scope="session")
def make_chaos(seed: int) -> Callable[..., Chaos]:
    return lambda host, **options: Chaos(host, seed, **options)


@pytest.fixture
def plugin_path() -> Callable[[str], Path]:
    """The plugins of this folder, by name."""
    return lambda name: HERE / f"{name}.py"


@pytest.fixture(scope="session")
def disk_shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that stands between a host and its disk; see its source."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is missing: it builds the library that watches and slows the host's disk")
    library = tmp_path_factory.mktemp("shim") / "disk_shim.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, HERE / "disk_shim.c", "-ldl"], check=True)
    return library

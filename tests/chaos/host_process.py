"""A real host process that is killed, and the requests that tests send to it."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, BinaryIO

import psutil
from tests.chaos.http_client import BROKEN, Client
from tests.chaos.patience import describe_processes, holders_of, patience, tail
from tests.ports import free_port

from bollard.host.clock import SystemClock
from bollard.host.limits import HOUSEKEEPING_S
from bollard.host.store.selection import choose_store
from bollard.host.store.store import Store

__all__ = ["HostProcess", "UpProcess"]

HERE = Path(__file__).parent
_SAYS_S = 10.0


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
        database: str = "",
        environment: dict[str, str] | None = None,
        inside: list[str] | None = None,
        seen_at: Path | None = None,
        confined: bool = False,
    ) -> None:
        """Workers are not `confined` by default: many leave lines in files of the tests."""
        self.data = seen_at or data  # where it is from here, for a host that runs `inside` namespaces of its own
        self._own_data = data
        self._logs = data.parent / f"{data.name}.logs"
        self._environment = {"BOLLARD_WORKER_SANDBOX": "best" if confined else "none", **(environment or {})}
        self._inside = inside or []
        self.port = free_port()
        self.client = self.client_at(self.port)
        self._starts = 0
        self._options = {
            "plugins": [str(path) for path in plugins],
            "commands": commands or {},
            "runs_at_once": runs_at_once,
            "deadline_s": deadline_s or {},
            "retention_s": retention_s or {},
            "housekeeping_s": housekeeping_s,
            "database": database,
        }
        self.database = database
        self._process: asyncio.subprocess.Process | None = None
        self._drain: asyncio.Task[None] | None = None
        self._output = 0
        """The inode of the pipe that it prints to."""
        data.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(exist_ok=True)

    def _token(self) -> str:
        return (self.data / "token").read_text()

    def client_at(self, port: int) -> Client:
        return Client(port, self._token, self.seen)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def command(self) -> list[str]:
        # A host takes over what the other kind of journal left, in turn.
        journal = "thread" if self._starts % 2 else "process"
        options = {"data": str(self._own_data), "port": self.port, "journal": journal, **self._options}
        return [sys.executable, str(HERE / "launch.py"), json.dumps(options)]

    def listens(self, line: bytes) -> bool:
        return line == b"listening\n"

    async def start(self, kill_point: str = "") -> None:
        """Returns when the host listens, or when it died before at its kill point."""
        environment = {**os.environ, **self._environment, "BOLLARD_KILL_POINT": kill_point}
        with (self._logs / "stderr").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._inside,
                *self.command(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        with contextlib.suppress(OSError):  # it died at once
            self._output = os.stat(f"/proc/{self._process.pid}/fd/1").st_ino
        assert self._process.stdout is not None
        line, log = b"-", (self._logs / "stdout").open("ab", buffering=0)
        try:
            async with self.awaiting("the host to listen"):
                while line and not self.listens(line):  # log lines come before it
                    line = await self._process.stdout.readline()
                    log.write(line)
        finally:
            self._drain = asyncio.create_task(self._swallow(self._process.stdout, log))
        assert line or kill_point, await self.seen()
        self._starts += 1

    @staticmethod
    async def _swallow(output: asyncio.StreamReader, log: BinaryIO) -> None:
        with log:
            while piece := await output.read(65536):
                log.write(piece)

    async def died(self) -> int:
        """Wait for its end; the exit code."""
        assert self._process is not None
        async with self.awaiting("the end of the host, and of everybody who holds its output"):
            code = await self._process.wait()
            if self._drain is not None:
                await self._drain
        return code

    async def clear(self) -> None:
        """Removes everything of the host, in any state."""
        if self._process is not None and self._process.returncode is None:
            await self.kill()

    async def end(self, how: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(how)
        await self.died()

    async def kill(self) -> None:
        await self.end(signal.SIGKILL)

    async def ready(self, *agents: str) -> None:
        """Wait until these agents are known: their workers have introduced themselves."""
        async with self.awaiting(f"the agents {', '.join(agents)}"):
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
        """The health of the host."""
        async with self.client.request("GET", "/readyz") as answer:
            return await answer.json()

    async def plugin(self, name: str) -> dict[str, Any]:
        """The status of a plugin."""
        return (await self.health())["plugins"][name]

    def worker(self, plugin: Path) -> psutil.Process:
        """The one worker of a plugin."""
        children = psutil.Process(self.pid).children(recursive=True)
        (found,) = [child for child in children if str(plugin) in child.cmdline()]
        return found

    async def until_plugin(self, name: str, status: str) -> dict[str, Any]:
        async with self.awaiting(f"the plugin {name} to be {status}"):
            while (found := await self.plugin(name))["status"] != status:  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.05)
        return found

    def open_store(self) -> Store:
        store = choose_store(self.database, self.data, SystemClock())
        store.open()
        return store

    def awaiting(self, what: str) -> contextlib.AbstractAsyncContextManager[None]:
        """Bounds a wait for this host; a failed wait reports the state of the host."""
        return patience(what, self.seen)

    async def seen(self) -> str:
        """The state of the host for a failed wait: its processes, the holders of its output, its plugins, its logs."""
        family = list[psutil.Process]()
        with contextlib.suppress(psutil.Error):
            family = [host := psutil.Process(self.pid), *host.children(recursive=True)]
        return "\n".join(
            [
                f"--- the host {self.pid} on {self.port}; load {os.getloadavg()}",
                describe_processes(family),
                "--- who holds its output",
                describe_processes(await asyncio.to_thread(holders_of, self._output)),
                f"--- what it says of its plugins: {await self._plugins()}",
                f"--- the end of its stdout\n{tail(self._logs / 'stdout')}",
                f"--- the end of its stderr\n{tail(self._logs / 'stderr')}",
            ]
        )

    async def _plugins(self) -> str:
        try:
            async with asyncio.timeout(_SAYS_S):
                return json.dumps((await self.health())["plugins"])
        except (*BROKEN, ValueError, LookupError) as error:  # it listens no more, or not yet
            return f"nothing ({type(error).__name__})"


class UpProcess(HostProcess):
    """A host as an operator starts it: `bollard up`, with its own home, one plugin and settings."""

    def __init__(self, data: Path, plugin: Path, *, database: str = "", **settings: str) -> None:
        settings |= {"builtin_plugins": "false", "requests_per_minute": "1000000"}
        variables = {f"BOLLARD_{name.upper()}": value for name, value in settings.items()}
        variables |= {"HOME": str(data.parent)} | ({"BOLLARD_DATABASE": database} if database else {})
        super().__init__(data, [plugin], database=database, environment=variables)
        self.plugin_path = plugin

    def command(self) -> list[str]:
        return [*self._program("up"), "--port", str(self.port), "--plugins", str(self.plugin_path)]

    def listens(self, line: bytes) -> bool:
        said = json.loads(line) if line.startswith(b"{") else {}
        if said.get("event") == "token":
            (self.data / "token").write_text(said["token"])
        return said.get("event") == "agent.ready"

    def _program(self, *words: str) -> list[str]:
        return [str(Path(sys.executable).parent / "bollard"), *words, "--data", str(self.data)]

    async def tell(self, *words: str) -> int:
        """Another command for the same data; its exit code."""
        process = await asyncio.create_subprocess_exec(
            *self._program(*words), stdout=asyncio.subprocess.DEVNULL, env={**os.environ, **self._environment}
        )
        async with self.awaiting(f"the end of {words}"):
            return await process.wait()

    def journal(self) -> psutil.Process:
        """The process that writes its log."""
        children = psutil.Process(self.pid).children(recursive=True)
        (found,) = [child for child in children if "bollard.host.log.journal_process" in child.cmdline()]
        return found

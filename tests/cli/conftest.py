"""The command as people start it: a real process behind pipes, or behind a pseudo-terminal."""

import fcntl
import json
import os
import pty
import queue
import re
import select
import signal
import socketserver
import ssl
import struct
import subprocess
import sys
import termios
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyte
import pytest
from tests.cli.loaded_command import LoadedCommand
from tests.ports import free_port

BOLLARD = str(Path(sys.executable).with_name("bollard"))
PATIENCE_S = 120
ROWS = 40
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")


def environment(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", "COLUMNS": "80", **more}


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The output and the exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(scope="session")
def loaded_command() -> Iterator[LoadedCommand]:
    command = LoadedCommand(environment())
    yield command
    command.close()


@pytest.fixture
def bollard(tmp_path: Path, loaded_command: LoadedCommand) -> Callable[..., Finished]:
    """Run the command in an empty folder and wait for its end."""

    def run(*arguments: str, stdin: str | bytes = "", cwd: Path | None = None, **variables: str) -> Finished:
        done = loaded_command.run(
            arguments,
            stdin.encode() if isinstance(stdin, str) else stdin,
            cwd=cwd or tmp_path,
            environment=environment(**variables),
            timeout_s=PATIENCE_S,
        )
        return Finished(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())

    return run


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Start the command behind pipes, and read it while it runs."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, **variables: str) -> "subprocess.Popen[bytes]":
        running.append(
            subprocess.Popen(
                [BOLLARD, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=tmp_path,
                env=environment(**variables),
            )
        )
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


class Terminal:
    """A command behind a pseudo-terminal; tests wait for its output."""

    def __init__(self, arguments: tuple[str, ...], cwd: Path, columns: int, variables: dict[str, str]) -> None:
        self.shown = ""
        self.raw = ""
        """With the escape sequences."""
        self._seen = 0
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            own = {"TERM": "xterm", "XDG_STATE_HOME": str(cwd / "state"), **variables}
            os.execve(BOLLARD, [BOLLARD, *arguments], environment(**own))
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))

    def expect(self, pattern: str) -> str:
        """Wait until something new fits the pattern; gives the text up to its end."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            if found := re.search(pattern, self.shown[self._seen :]):
                text = self.shown[self._seen : self._seen + found.end()]
                self._seen += found.end()
                return text
            assert time.monotonic() < deadline, f"{pattern!r} never came; shown: {self.shown[self._seen :]!r}"
            assert self._read(), f"it ended before {pattern!r}; shown: {self.shown[self._seen :]!r}"

    def _read(self) -> bool:
        if not select.select([self._fd], [], [], 0.2)[0]:
            return True
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the other side is closed
            return False
        self._take(data)
        return bool(data)

    def _take(self, data: bytes) -> None:
        self.raw += data.decode("utf-8", "replace")
        self.shown += ANSI.sub("", data.decode("utf-8", "replace"))

    def send(self, text: str) -> None:
        os.write(self._fd, text.encode())

    @property
    def modes(self) -> int:
        """The local modes of the terminal: echo, whole lines, keys that send signals."""
        return termios.tcgetattr(self._fd)[3]

    def end(self) -> int:
        """Wait for the command to leave by itself; gives its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read():
            assert time.monotonic() < deadline, f"it does not leave; shown: {self.shown[self._seen :]!r}"
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)


class DrawnTerminal(Terminal):
    """A command that moves the cursor, behind a terminal that draws: the visible screen, and the lines that scrolled
    away."""

    def __init__(self, arguments: tuple[str, ...], cwd: Path, columns: int, variables: dict[str, str]) -> None:
        self._screen = pyte.HistoryScreen(columns, ROWS, history=10_000)
        self._stream = pyte.ByteStream(self._screen)
        super().__init__(arguments, cwd, columns, variables)

    def _take(self, data: bytes) -> None:
        self._stream.feed(data)

    @property
    def lines(self) -> list[str]:
        """Every line from the first to the last that is not empty."""
        width = self._screen.columns
        gone = ["".join(line[column].data for column in range(width)) for line in self._screen.history.top]
        return "\n".join(line.rstrip() for line in (*gone, *self._screen.display)).rstrip("\n").split("\n")

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def expect(self, pattern: str) -> str:
        """Wait until the drawn lines fit the pattern; gives the text that fits."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, self.text, re.MULTILINE)):
            assert time.monotonic() < deadline, f"{pattern!r} never came; shown:\n{self.text}"
            assert self._read(), f"it ended before {pattern!r}; shown:\n{self.text}"
        return found[0]

    def resize(self, columns: int) -> None:
        self._screen.resize(ROWS, columns)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Callable[..., DrawnTerminal]]:
    """Start the command behind a terminal that draws."""
    opened: list[DrawnTerminal] = []

    def start(*arguments: str, columns: int = 80, **variables: str) -> DrawnTerminal:
        opened.append(DrawnTerminal(arguments, tmp_path, columns, variables))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Start the command behind a pseudo-terminal."""
    opened: list[Terminal] = []

    def start(*arguments: str, columns: int = 80, **variables: str) -> Terminal:
        opened.append(Terminal(arguments, tmp_path, columns, variables))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a file into the test's folder."""

    def put(name: str, content: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(content).lstrip("\n"), encoding="utf-8")
        return path

    return put


class RunningHost:
    """`bollard up` in a separate process, on a free port, with data and credentials in the test's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self.token = ""
        self.told: list[Any] = []
        self.process: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[bytes] = queue.Queue()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """The variables with which a command finds this host."""
        return {"XDG_CONFIG_HOME": str(self.folder / "config"), "BOLLARD_PORT": str(self.port)}

    def start(
        self, *arguments: str, agents: tuple[str, ...] = ("assistant", "demo", "echo"), **variables: str
    ) -> "RunningHost":
        """Start it, on the same port whenever it is started again, and wait for its agents."""
        self.told = []
        self._lines = queue.Queue()
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [BOLLARD, "up", "--data", str(self.data), "--port", str(self.port), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.folder,
                env=environment(**{**self.variables, **variables}),
            )
        self._reader = threading.Thread(target=self._read, args=(self.process, self._lines), daemon=True)
        self._reader.start()
        address = self.wait_for("listening")["address"]
        self.port = int(address.rpartition(":")[2])
        self.token = next((line["token"] for line in self.told if line["event"] == "token"), self.token)
        waiting = set(agents)
        while waiting:
            waiting.discard(self.wait_for("agent.ready")["agent"])
        self.token = next((line["token"] for line in self.told if line["event"] == "token"), self.token)
        return self

    @staticmethod
    def _read(process: "subprocess.Popen[bytes]", lines: "queue.Queue[bytes]") -> None:
        assert process.stdout is not None
        with process.stdout as out:
            for line in out:
                lines.put(line)
        lines.put(b"")

    def wait_for(self, event: str) -> Any:
        """The next line of this kind; all lines are kept in `told`."""
        while True:
            line = self._lines.get(timeout=PATIENCE_S)
            assert line, f"the host ended before it said {event!r}: {self.log}"
            self.told.append(json.loads(line))
            if self.told[-1]["event"] == event:
                return self.told[-1]

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def signal(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end; gives the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(timeout=PATIENCE_S)
        self.process = None
        self._reader.join(PATIENCE_S)
        return code

    def close(self) -> None:
        if self.process is not None:
            self.signal(signal.SIGKILL)


@pytest.fixture
def new_host(tmp_path: Path) -> Iterator[Callable[[], RunningHost]]:
    """A host that a test starts, kills and starts again as it likes."""
    made: list[RunningHost] = []

    def make() -> RunningHost:
        folder = tmp_path / f"host-{len(made)}"
        folder.mkdir()
        made.append(RunningHost(folder))
        return made[-1]

    yield make
    for host in made:
        host.close()


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHost]:
    """One host that tests share; they leave it running and look at their own runs only."""
    running = RunningHost(tmp_path_factory.mktemp("host"))
    try:
        yield running.start()
    finally:
        running.close()


DEAF = """
import asyncio
from bollard.sdk import RunContext, runner

@runner(label="Deaf", capabilities=["interrupt", "steering"])
async def deaf(ctx: RunContext):
    yield ctx.delta(f"I do not listen: {ctx.input.text}")
    if ctx.input.text == "wait":
        await asyncio.sleep(2)
    if ctx.input.text == "stay":
        await asyncio.Event().wait()
"""


@pytest.fixture(scope="session")
def steady_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHost]:
    """A host with a runner that reads its steering messages, and one that announces them and does not. Plugins and MCP
    servers may have files in `shared`."""
    running = RunningHost(tmp_path_factory.mktemp("steady"))
    deaf = running.folder / "deaf.py"
    deaf.write_text(DEAF, encoding="utf-8")
    steady = Path(__file__).parents[2] / "examples/steering/steady.py"
    try:
        agents = ("assistant", "demo", "echo", "steady", "deaf")
        plugins = ("--plugins", str(steady), "--plugins", str(deaf))
        (running.folder / "shared").mkdir()
        roots = {"BOLLARD_SANDBOX_ROOTS": str(running.folder / "shared")}
        yield running.start(*plugins, agents=agents, BOLLARD_EGRESS_ALLOW="127.0.0.1", **roots)
    finally:
        running.close()


class WatchedRun:
    """A run that a chat behind a pipe has started; its records are awaited one by one."""

    def __init__(self, chat: "subprocess.Popen[bytes]") -> None:
        self._chat = chat
        self.run_id = self.record("run.created")["run_id"]

    def record(self, kind: str, said: str = "") -> Any:
        """The next record of this type that has these words in its data. The words of deltas are put together: a host
        that looks for secrets may cut them elsewhere than the runner did."""
        assert self._chat.stdout is not None
        newest: list[Any] = []
        text = ""
        for line in self._chat.stdout:
            record = json.loads(line)
            if record["type"] == "message.delta":
                text += record["data"]["chunk"]["content"]
            words = text if kind == "message.delta" else json.dumps(record["data"], ensure_ascii=False)
            if record["type"] == kind and said in words:
                return record
            newest = [*newest[-4:], (record["type"], record["data"])]
        raise AssertionError(f"the run ended without {kind} {said}: {newest}")

    def end(self) -> int:
        """Read to the end; gives the exit code of the chat."""
        self.record("run.ended")
        return self._chat.wait(timeout=PATIENCE_S)


@pytest.fixture
def ada(steady_host: RunningHost, started: Callable[..., Any]) -> Callable[..., WatchedRun]:
    """Let Ada start a run of an agent, and watch it."""

    def start(conversation: str, message: str = "go", agent: str = "steady") -> WatchedRun:
        arguments = ("--agent", agent, "--conversation", conversation, "--actor", "user:ada", "--message", message)
        return WatchedRun(started("chat", "--json", *arguments, **steady_host.variables))

    return start


Serve = Callable[..., int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server with a handler, over TLS if it has a certificate; gives its port."""
    servers: list[socketserver.ThreadingTCPServer] = []

    def start(handler: type[socketserver.BaseRequestHandler], certificate: tuple[str, str] | None = None) -> int:
        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
        server.handle_error = lambda *_: None  # pyright: ignore[reportAttributeAccessIssue] -- clients hang up here
        server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_address[1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()

"""Real worker processes: inheritance, output, and the end of everything that they spawned."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from bollard.protocol import CHANNEL_FD_VARIABLE
from bollard.wire import HostEnd, WorkerProcess, fault_in, spawn_worker, worker_argv, worker_environment
from bollard.wire.limits import OUTPUT_LAST_LINES, OUTPUT_LINE_BYTES

PATIENCE_S = 120.0
CUT = " […cut]"


class Output:
    """The lines of one process, and a way to wait for them."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self._came = asyncio.Event()

    def __call__(self, name: Literal["stdout", "stderr"], line: str) -> None:
        self.lines.append((name, line))
        self._came.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.lines) < count:
                self._came.clear()
                await self._came.wait()

    def of(self, name: str) -> list[str]:
        return [line for source, line in self.lines if source == name]


class Ear:
    """Notices the loss of a connection."""

    def __init__(self) -> None:
        self.frames: list[Any] = []
        self.gone = asyncio.Event()

    def frames_received(self, frames: list[Any]) -> None:
        self.frames += frames

    def connection_lost(self, reason: str) -> None:
        self.gone.set()


Spawn = Callable[..., Awaitable[tuple[WorkerProcess, Output]]]


@pytest.fixture
async def spawn() -> AsyncIterator[Spawn]:
    started: list[WorkerProcess] = []

    async def start(program: str, *, environment: dict[str, str] | None = None, cwd: Path | None = None) -> Any:
        output = Output()
        process = await spawn_worker(
            [sys.executable, "-c", program],
            environment=worker_environment(os.environ) if environment is None else environment,
            output=output,
            cwd=cwd,
        )
        started.append(process)
        return process, output

    yield start
    for process in started:
        await process.kill()


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


# --- what a worker inherits ---


@pytest.mark.requirement("P11-51")
async def test_a_worker_inherits_only_its_connection(spawn: Spawn) -> None:
    with tempfile.TemporaryFile() as secret:
        os.set_inheritable(secret.fileno(), True)
        process, output = await spawn(
            "import os; fds = os.listdir('/proc/self/fd');"
            "found = {fd for fd in fds if os.path.exists('/proc/self/fd/' + fd)};"
            f"print(sorted(found - {{'0', '1', '2', os.environ['{CHANNEL_FD_VARIABLE}']}}));"
            f"print(os.fstat(int(os.environ['{CHANNEL_FD_VARIABLE}'])).st_mode >> 12); print(os.read(0, 1))"
        )
        assert await process.wait() == 0
    await process.kill()
    assert output.of("stdout") == ["[]", str(0o14), "b''"]
    assert output.of("stderr") == []


@pytest.mark.requirement("P11-51")
async def test_a_worker_sees_only_the_given_environment(spawn: Spawn) -> None:
    environment = worker_environment({"PATH": "/bin", "AWS_SECRET": "x", "TZ": "UTC", "TOKEN": "t"}, ["TOKEN"])
    process, output = await spawn(
        "print(sorted(open('/proc/self/environ').read().split(chr(0))))", environment=environment
    )
    assert await process.wait() == 0
    await process.kill()
    (line,) = output.of("stdout")
    variables = [item for item in line.strip("[]").replace("'", "").split(", ") if item]
    assert [item for item in variables if not item.startswith(CHANNEL_FD_VARIABLE)] == [
        "PATH=/bin",
        "TOKEN=t",
        "TZ=UTC",
    ]


def test_the_environment_is_the_allow_list_and_declared_variables_without_those_of_the_host() -> None:
    inherited = {
        "PATH": "/bin",
        "HOME": "/root",
        "LD_PRELOAD": "x",
        "PYTHONPATH": "x",
        "OPENAI_API_KEY": "k",
        "BOLLARD_ADMIN_TOKEN": "a",
        "bollard_key": "b",
        CHANNEL_FD_VARIABLE: "7",
    }
    assert worker_environment(inherited) == {"PATH": "/bin", "HOME": "/root"}
    declared = ["OPENAI_API_KEY", "BOLLARD_ADMIN_TOKEN", "bollard_key", CHANNEL_FD_VARIABLE, "MISSING"]
    assert worker_environment(inherited, declared) == {"PATH": "/bin", "HOME": "/root", "OPENAI_API_KEY": "k"}


async def test_a_worker_starts_in_its_directory_and_its_own_session(spawn: Spawn, tmp_path: Path) -> None:
    process, output = await spawn(
        "import os; print(os.path.samefile('.', os.environ['TMPDIR']), os.getpid() == os.getsid(0))",
        environment={"TMPDIR": str(tmp_path)},
        cwd=tmp_path,
    )
    await process.wait()
    await process.kill()
    assert output.of("stdout") == ["True True"]


# --- output ---


@pytest.mark.requirement("P11-52")
async def test_stdout_and_stderr_arrive_as_lines(spawn: Spawn) -> None:
    process, output = await spawn(
        "import sys; print('one\\n\\ntwo'); print('bad', file=sys.stderr); sys.stdout.write('no newline')"
    )
    assert await process.wait() == 0
    await process.kill()
    assert output.of("stdout") == ["one", "", "two", "no newline"]
    assert output.of("stderr") == ["bad"]


@pytest.mark.requirement("P11-52")
async def test_long_lines_are_truncated_and_invalid_utf_8_is_replaced(spawn: Spawn) -> None:
    edge = OUTPUT_LINE_BYTES
    process, output = await spawn(
        "import sys; out = sys.stdout.buffer;"
        f"out.write(b'a' * {edge} + b'\\n' + b'b' * {edge + 1} + b'\\n' + b'c' * {edge * 100} + b'\\nshort\\n');"
        f"out.write(b'\\xff\\xfe\\n' + b'd' * {edge * 3})"
    )
    assert await process.wait() == 0
    await process.kill()
    assert output.of("stdout") == [
        "a" * edge,
        "b" * edge + CUT,
        "c" * edge + CUT,
        "short",
        "\ufffd\ufffd",
        "d" * edge + CUT,
    ]


@pytest.mark.requirement("P11-46", "P11-52")
async def test_a_flood_of_lines_is_partly_reported_the_rest_is_counted_and_its_end_is_kept(spawn: Spawn) -> None:
    process, output = await spawn(
        "import sys; sys.stdout.write('y\\n' * 100_000); sys.stdout.flush(); print('why it ended', file=sys.stderr)"
    )
    assert await process.wait() == 0
    await process.kill()
    told = output.of("stdout")
    dropped = sum(int(line[1:].split()[0]) for _, line in output.lines if "lines were dropped" in line)
    assert told.count("y") < 50_000
    assert 100_000 <= told.count("y") + dropped <= 100_000 + 2 * OUTPUT_LAST_LINES
    assert output.of("stderr")[-1] == "why it ended"


@pytest.mark.requirement("P11-52")
async def test_the_output_of_a_worker_is_never_read_as_frames(spawn: Spawn) -> None:
    process, output = await spawn('print(\'{"jsonrpc":"2.0","method":"log"}\', flush=True); input()')
    ear = Ear()
    process.transport.start(ear)
    async with asyncio.timeout(PATIENCE_S):
        await ear.gone.wait()
    await process.kill()
    assert len(output.of("stdout")) == 1
    assert ear.frames == []


# --- the channel and the end ---

WORKER = """
import asyncio, os, socket
from bollard.protocol import PluginIdentity, WorkerIdentity
from bollard.wire import WorkerEnd, connect_socket

class Handler:
    def runners(self): return []
    def tools(self): return []
    def run_started(self, run): asyncio.ensure_future(self.serve(run))
    async def serve(self, run):
        print("a print in a runner is a log line", flush=True)
        for number in range(1000):
            await run.emit("message.delta", {"chunk": {"role": "assistant", "content": str(number)}})
        await run.emit("run.completed", {"finish_reason": "end"})
        end.finish_run(run)
    def run_cancelled(self, run, reason): pass
    def tool_called(self, request): pass
    def tool_cancelled(self, call_id): pass
    def shutdown(self, grace_s, done): done()
    def closed(self, reason): gone.set()

async def main():
    global end, gone
    gone = asyncio.Event()
    sock = socket.socket(fileno=int(os.environ["BOLLARD_CHANNEL_FD"]))
    transport = await connect_socket(sock)
    end = WorkerEnd(transport, Handler(), worker=WorkerIdentity(name="t", version="1", language="python"),
                    plugin=PluginIdentity(author="acme", name="helpdesk", version="1"))
    end.start()
    await gone.wait()

asyncio.run(main())
"""


async def test_a_worker_process_serves_runs_and_exits_when_its_connection_closes(
    spawn: Spawn, make_observer: Any, make_sink: Any
) -> None:
    process, output = await spawn(WORKER)
    observer = make_observer()
    host = HostEnd(process.transport, observer)
    async with asyncio.timeout(PATIENCE_S):
        await host.initialize("1")
        sinks = [make_sink() for _ in range(3)]
        for number, sink in enumerate(sinks):
            sink.run = host.start_run_raw(f"r{number}", {"context": {"run_id": f"r{number}"}}, sink)
        for sink in sinks:
            assert (await sink.run.ended).last_sequence == 1001
            assert sink.texts == [str(number) for number in range(1000)]
        await host.shutdown(0)
        assert await process.stop(PATIENCE_S) == 0
    assert output.of("stdout") == ["a print in a runner is a log line"] * 3
    assert output.of("stderr") == []
    assert observer.reasons == ["the host stops the worker"]


HALF_READER = f"""
import json, os, signal, socket
channel = socket.socket(fileno=int(os.environ["{CHANNEL_FD_VARIABLE}"]))
lines = channel.makefile("rb", buffering=0)
call = json.loads(lines.readline())
plugin = {{"author": "a", "name": "n", "version": "1"}}
worker = {{"name": "n", "version": "1", "language": "python"}}
answer = {{"jsonrpc": "2.0", "id": call["id"], "result": {{"protocol": 1, "worker": worker, "plugin": plugin}}}}
channel.sendall(json.dumps(answer).encode() + b"\\n")
lines.readline()
channel.recv(10)
print("half", flush=True)
signal.pause()
"""
"""A worker that reads its first run, and ten bytes of the second."""


@pytest.mark.requirement("P08-17")
async def test_a_killed_worker_process_loses_its_runs_at_once(spawn: Spawn, make_observer: Any, make_sink: Any) -> None:
    process, _ = await spawn(WORKER)
    observer, sink = make_observer(), make_sink(commits=False)
    host = HostEnd(process.transport, observer)
    await host.initialize("1")
    sink.run = host.start_run_raw("r", {"context": {"run_id": "r"}}, sink)
    await sink.until(lambda: len(sink.taken) == 256)
    os.kill(process.pid, 9)
    await sink.until(lambda: sink.ends)
    assert sink.ends[0].how == "lost"
    assert await process.wait() == -9
    assert process.returncode == -9


async def test_a_stopped_process_or_one_without_a_connection_cannot_answer(spawn: Spawn) -> None:
    process, output = await spawn(
        f"import os, signal; channel = int(os.environ['{CHANNEL_FD_VARIABLE}']);"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1}); print('open', flush=True);"
        "signal.sigwait({signal.SIGUSR1}); os.close(channel); print('closed', flush=True); signal.pause()"
    )
    await output.until(1)
    assert process.fault() is None
    os.kill(process.pid, signal.SIGSTOP)
    async with asyncio.timeout(PATIENCE_S):
        while process.fault() != "the worker's process is stopped":  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.001)
    os.kill(process.pid, signal.SIGCONT)
    os.kill(process.pid, signal.SIGUSR1)
    await output.until(2)
    assert process.fault() == "the worker has closed its connection"
    ear = Ear()
    process.transport.start(ear)
    assert await process.kill() == -9
    await ear.gone.wait()
    assert process.fault() is None


async def test_the_end_of_a_process_shows_its_unread_runs(spawn: Spawn, make_observer: Any, make_sink: Any) -> None:
    """Also for a large request that was read in part, and for those that never left this side."""
    process, _ = await spawn(WORKER)
    host = HostEnd(process.transport, make_observer())
    await host.initialize("1")
    read = make_sink(commits=False)
    read.run = host.start_run_raw("read", {"context": {"run_id": "read"}}, read)
    await read.until(lambda: len(read.taken) == 256)
    os.kill(process.pid, signal.SIGSTOP)
    unread = [make_sink() for _ in range(20)]
    for number, sink in enumerate(unread):
        request = {"context": {"run_id": f"unread {number}", "filler": "x" * 100_000}}
        sink.run = host.start_run_raw(f"unread {number}", request, sink)
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    late = make_sink()  # the process has ended, and the channel does not know it yet
    late.run = host.start_run_raw("late", {"context": {"run_id": "late"}}, late)
    unread.append(late)
    for sink in (read, *unread):
        await sink.until(lambda sink=sink: sink.ends)
    assert [(end.how, end.unread) for end in read.ends] == [("lost", None)]
    assert [(end.how, end.unread) for sink in unread for end in sink.ends] == [("lost", "certain")] * 21


async def test_a_half_read_run_counts_as_unread_and_the_one_before_it_as_read(
    spawn: Spawn, make_observer: Any, make_sink: Any
) -> None:
    process, output = await spawn(HALF_READER)
    host = HostEnd(process.transport, make_observer())
    await host.initialize("1")
    sinks = [make_sink(), make_sink()]
    for number, sink in enumerate(sinks):
        sink.run = host.start_run_raw(str(number), {"context": {"run_id": str(number)}}, sink)
    await output.until(1)
    await process.kill()
    for sink in sinks:
        await sink.until(lambda sink=sink: sink.ends)
    assert [sink.ends[0].unread for sink in sinks] == [None, "certain"]


async def test_stopping_ends_a_worker_that_does_not_exit(spawn: Spawn) -> None:
    process, output = await spawn(
        "import signal; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; print('ready', flush=True);"
        "[signal.pause() for _ in iter(int, 1)]"
    )
    await output.until(1)
    assert await process.stop(0.01) == -9
    assert await process.stop(0.01) == -9
    assert await process.kill() == -9


GRANDCHILD = "import socket; s = socket.create_connection(('127.0.0.1', {port})); s.sendall(b'hi'); s.recv(1)"


class Grandchild:
    """A process that a worker spawned. It holds a connection to this test, which ends when it ends, and ends it."""

    def __init__(self) -> None:
        self.connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = (
            asyncio.get_running_loop().create_future()
        )

    async def start(self, spawn: Spawn, *, session: bool, worker_leaves: bool) -> WorkerProcess:
        async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(2)
            self.connected.set_result((reader, writer))

        server = await asyncio.start_server(welcome, "127.0.0.1", 0)
        program = GRANDCHILD.format(port=server.sockets[0].getsockname()[1])
        process, output = await spawn(
            "import subprocess, sys, signal;"
            f"subprocess.Popen([sys.executable, '-c', {program!r}], start_new_session={session});"
            f"print('spawned', flush=True); {worker_leaves} or signal.pause()"
        )
        async with asyncio.timeout(PATIENCE_S):
            self.reader, self.writer = await self.connected
            await output.until(1)
        server.close()
        return process

    async def ended(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                assert await self.reader.read() == b""
        self.writer.close()


@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("worker_leaves", [True, False])
async def test_children_of_a_worker_end_with_it_even_if_the_worker_exits_first(
    spawn: Spawn, how: str, worker_leaves: bool
) -> None:
    grandchild = Grandchild()
    process = await grandchild.start(spawn, session=False, worker_leaves=worker_leaves)
    if worker_leaves:
        assert await process.wait() == 0
    code = await (process.kill() if how == "kill" else process.stop(0.01))
    assert code == (0 if worker_leaves else -9)
    await grandchild.ended()


async def test_a_grandchild_outside_the_group_does_not_delay_the_end(spawn: Spawn) -> None:
    before = descriptors()
    grandchild = Grandchild()
    process = await grandchild.start(spawn, session=True, worker_leaves=False)
    async with asyncio.timeout(PATIENCE_S):
        assert await process.kill() == -9
    assert not grandchild.reader.at_eof()
    grandchild.writer.write(b"!")
    await grandchild.ended()
    await grandchild.writer.wait_closed()
    assert descriptors() <= before  # those of earlier tests may close meanwhile


@pytest.mark.parametrize("argv", [["/no/such/command"], ["/"], ["/etc/hostname"]])
async def test_a_command_that_cannot_start_is_an_os_error_and_leaves_no_open_descriptor(argv: list[str]) -> None:
    before = descriptors()
    for _ in range(3):
        with pytest.raises(OSError, match=argv[0]):
            await spawn_worker(argv, environment={}, output=Output())
    assert descriptors() <= before  # those of earlier tests may close meanwhile


@pytest.mark.parametrize(
    ("first", "told"),
    [
        ("#!/nowhere/node\n", "worker names an interpreter in its first line that does not exist"),
        ("#!/bin/sh\r\n", "ends that line like Windows"),
        ("exit 0\n", "worker has no first line that names an interpreter"),
    ],
)
async def test_a_program_without_an_interpreter_is_reported(tmp_path: Path, first: str, told: str) -> None:
    program = tmp_path / "worker"
    program.write_text(first, encoding="utf-8", newline="")
    program.chmod(0o755)
    with pytest.raises(OSError, match=told):
        await spawn_worker([str(program)], environment={}, output=lambda _, __: None)


def test_a_program_in_a_relative_folder_is_found_from_that_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugin").mkdir()
    program = tmp_path / "plugin" / "worker"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    assert worker_argv(["./worker", "--quiet"], Path("plugin"), {}) == [str(program), "--quiet"]


async def test_an_ended_worker_leaves_no_open_descriptor(spawn: Spawn) -> None:
    process, _ = await spawn("pass")
    await process.wait()
    await process.kill()
    before = descriptors()
    for _ in range(3):
        process, _ = await spawn("print('x')")
        await process.stop()
    assert descriptors() <= before  # the first one's last descriptor may be closed in a later turn of the loop


NODE = [
    "file:///srv/greeter/greeter.mjs:4",
    "serv({",
    "^",
    "",
    "ReferenceError: serv is not defined",
    "    at file:///srv/greeter/greeter.mjs:4:1",
    "    at ModuleJob.run (node:internal/modules/esm/module_job:325:25)",
    "",
    "Node.js v20.20.2",
]


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (NODE, "ReferenceError: serv is not defined (at file:///srv/greeter/greeter.mjs:4:1)"),
        (["Error [ERR_MODULE_NOT_FOUND]: no module", "  code: 1"], "Error [ERR_MODULE_NOT_FOUND]: no module"),
        (
            ["java.lang.IllegalStateException: closed", "\tat Main.main(Main.java:5)"],
            "java.lang.IllegalStateException: closed (at Main.main(Main.java:5))",
        ),
        (["panic: no port", "", "goroutine 1 [running]:"], "panic: no port"),
        (["Traceback (most recent call last):", "ValueError: 3"], "ValueError: 3"),
        (["bollard: PL11 a.py: module: ImportError: no b", "hint: fix the error it names"], None),
        (["usage: worker --port PORT"], None),
        ([], None),
    ],
)
def test_the_error_of_a_program_is_found_in_its_output(lines: list[str], fault: str | None) -> None:
    assert fault_in(lines) == fault

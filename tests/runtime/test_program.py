"""A program as the worker of a remote runtime: the relay adds the digest and the output, and changes nothing else."""

import asyncio
import hashlib
import json
import os
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.fetching_plugin import page_server, write_fetching_plugin

from bollard.confine.probe import machine_findings
from bollard.confine.worker_level import choose_level
from bollard.protocol import LogRecord, ToolCallContext, ToolCallParams
from bollard.runtime import PluginLoadError
from bollard.runtime.limits import PROGRAM_BYTES
from bollard.runtime.program import Program, ProgramRelay, code_of
from bollard.wire import ChannelClosed, HostEnd, Strike, connect_socket
from bollard.wire.plugin_files import digest_of_plugin

TINY = Path(__file__).parents[1] / "doubles" / "tiny_worker.py"
SECONDS = 20.0


class Listener:
    """Records what the connection reports."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[LogRecord] = asyncio.Queue()
        self.closed_because: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def logged(self, record: LogRecord) -> None:
        self.lines.put_nowait(record)

    def batch_ended(self) -> None:
        pass

    def struck(self, strike: Strike) -> None:
        raise AssertionError(strike)

    def closed(self, reason: str) -> None:
        self.closed_because.set_result(reason)


class Relayed:
    """A host at one end, a program at the other."""

    def __init__(self, host: HostEnd, listener: Listener, relay: ProgramRelay) -> None:
        self.host = host
        self.listener = listener
        self.relay = relay
        self.serving = asyncio.create_task(relay.serve())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(TINY, tmp_path / "worker")
    (tmp_path / "worker").chmod(0o755)
    return tmp_path


@pytest.fixture
async def start() -> AsyncIterator[Any]:
    started: list[Relayed] = []

    async def begin(program: Program) -> Relayed:
        ours, theirs = socket.socketpair()
        listener = Listener()
        host = HostEnd(await connect_socket(ours), listener)
        relayed = Relayed(host, listener, ProgramRelay(await connect_socket(theirs), program, lambda _: None))
        started.append(relayed)
        return relayed

    yield begin
    for each in started:
        each.relay.hang_up("the test is over")
        async with asyncio.timeout(SECONDS):
            await each.serving
            await each.listener.closed_because


def program(folder: Path, *words: str) -> Program:
    return Program.of_command(["./worker", *words], folder, {**os.environ, "BOLLARD_TOKEN": "secret", "MINE": "1"})


async def test_a_program_has_the_digest_of_its_folder_and_its_command(start: Any, folder: Path) -> None:
    relayed = await start(program(folder, "--loud"))
    introduced = await relayed.host.initialize("test")
    wanted = json.dumps(["./worker", "--loud", digest_of_plugin(folder)])
    assert introduced.plugin.digest == hashlib.sha256(wanted.encode()).hexdigest()
    assert [each.runner_name for each in (await relayed.host.list_runners()).runners] == ["default"]
    assert (await relayed.host.list_tools()).tools == (), "an unknown method is answered by the program itself"


async def test_a_digest_reported_by_the_program_is_kept(start: Any, folder: Path) -> None:
    own = "f" * 64
    text = TINY.read_text().replace('"version": VERSION}', f'"version": VERSION, "digest": "{own}"}}', 1)
    (folder / "worker").write_text(text)
    assert (await (await start(program(folder))).host.initialize("test")).plugin.digest == own


async def test_an_exiting_program_is_reported_with_its_code(start: Any, folder: Path) -> None:
    (folder / "worker").write_text("#!/bin/sh\nexit 7\n")
    relayed = await start(program(folder))
    with pytest.raises(ChannelClosed):
        await relayed.host.initialize("test")
    async with asyncio.timeout(SECONDS):
        assert await relayed.serving == "the program ended with code 7"
    assert relayed.relay.exit_code == 7
    assert not relayed.relay.dismissed


async def test_a_shutdown_of_the_host_ends_the_program(start: Any, folder: Path) -> None:
    relayed = await start(program(folder))
    await relayed.host.initialize("test")
    await relayed.host.shutdown(0)
    async with asyncio.timeout(SECONDS):
        await relayed.serving
    assert relayed.relay.dismissed


async def test_a_lost_host_ends_the_program(start: Any, folder: Path) -> None:
    relayed = await start(program(folder))
    await relayed.host.initialize("test")
    pid = relayed.relay._process.pid
    relayed.host.close("gone")
    async with asyncio.timeout(SECONDS):
        await relayed.serving
    assert relayed.relay.exit_code is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_the_output_of_a_program_makes_log_records(start: Any, folder: Path) -> None:
    text = TINY.read_text().replace("for line in lines:", "for line in lines:\n    print('heard', flush=True)")
    (folder / "worker").write_text(text)
    relayed = await start(program(folder))
    await relayed.host.initialize("test")
    await relayed.host.ping()
    async with asyncio.timeout(SECONDS):
        record = await relayed.listener.lines.get()
    assert (record.level, record.message, record.fields) == ("info", "heard", {"stream": "stdout"})


async def test_a_remote_plugin_reaches_the_names_of_its_manifest_and_no_other(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = choose_level("best", machine_findings())
    if not (level.namespaces or level.limits_ports):
        pytest.skip("no level with a network on this machine")
    with page_server() as port:
        write_fetching_plugin(tmp_path / "fetch", port)
        monkeypatch.setenv("BOLLARD_EGRESS_ALLOW", f"localhost:{port}")
        relayed = await start(Program.of_plugin(tmp_path / "fetch", os.environ))
        await relayed.host.initialize("test")
        answers = [
            await relayed.host.call_tool(
                ToolCallParams(
                    call_id=name,
                    tool="fetch",
                    arguments={"url": f"http://{name}:{port}/"},
                    timeout_ms=20_000,
                    context=ToolCallContext(run_id="run", workspace_id="default", agent_id="agent"),
                )
            )
            for name in ("localhost", "127.0.0.1")
        ]
        async with asyncio.timeout(SECONDS):
            records = [await relayed.listener.lines.get() for _ in range(2)]
    assert "hello" in str(answers[0])
    assert f"spec.sandbox.network of acme/fetch does not admit 127.0.0.1:{port}" in str(answers[1])
    assert {(each.fields["host"], each.fields["outcome"], each.level) for each in records} == {
        ("localhost", "closed", "info"),
        ("127.0.0.1", "refused", "warning"),
    }


def test_a_program_does_not_see_the_tokens_of_the_host(folder: Path) -> None:
    environment = program(folder).environment
    assert environment["MINE"] == "1"
    assert not [name for name in environment if name.startswith("BOLLARD_")]


def test_the_code_of_a_command_is_the_folder_of_its_first_file(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "worker.mjs").write_text("")
    assert code_of(["node", "--trace-warnings", "sub/worker.mjs"], folder) == folder / "sub"
    assert code_of(["./worker"], folder) == folder
    assert code_of(["sh"], folder) == Path(shutil.which("sh") or "").resolve()
    assert code_of(["/bin/sh"], folder) == Path("/bin/sh").resolve()
    assert code_of(["/bin/sh", "worker"], folder) == folder
    for command in (["no-such-program"], ["./nothing"]):
        with pytest.raises(PluginLoadError, match="neither a file nor on the PATH"):
            code_of(command, folder)


def test_an_oversized_program_folder_is_refused(folder: Path) -> None:
    with (folder / "picture").open("wb") as sparse:
        sparse.truncate(PROGRAM_BYTES)
    with pytest.raises(PluginLoadError, match="a folder of its own"):
        program(folder)

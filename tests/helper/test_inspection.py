"""Another process of the same user reads nothing of the host and of its helpers."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.ports import free_port

from bollard.confine.probe import machine_findings
from bollard.helper.host_link import HOST_PID_VARIABLE
from bollard.protocol import CHANNEL_FD_VARIABLE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")
INSPECT = Path(__file__).with_name("inspect.py")
PATIENCE_S = 60.0
NOBODY = 65534
HELPERS = ("bollard.host.log.journal_process", "bollard.knowledge", "bollard.mcp_bridge")
Start = Callable[..., subprocess.Popen[bytes]]


PARROT = """
from bollard.sdk import RunContext, runner

print("loaded", flush=True)

@runner(name="default", label="Parrot")
async def parrot(ctx: RunContext):
    yield ctx.delta("hello")
"""
WAITING = """
import os, subprocess, sys
from bollard.confine.launch import Launch, LaunchNeeds
from bollard.confine.probe import machine_findings
from bollard.confine.worker_level import choose_level

argv = ["/bin/sh", "-c", "echo ready; read line"]
launch = Launch(choose_level("best", machine_findings()), argv, cwd="/", needs=LaunchNeeds())
variables = launch.environment({"SECRET": "canary"})
started = subprocess.Popen(
    launch.argv, env=variables, pass_fds=launch.descriptors, stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
launch.release()
assert started.stdout.readline() == b"ready\\n", "the sandbox did not start"
print(started.pid, flush=True)
sys.stdin.read()
"""
HELD_MODEL = """
import sys
from bollard.local_model import __main__ as model

def hold(arguments):
    print("held", flush=True)
    sys.stdin.read()

model.read_settings = hold
model.main([])
"""


def as_user() -> list[str]:
    """The command that starts a program as an ordinary user. Root may read every process, so it becomes another user;
    its one capability lets that user reach an interpreter in a closed folder."""
    if os.geteuid() != 0:
        return []
    program = shutil.which("setpriv")
    if program is None:
        pytest.skip("setpriv (util-linux) is needed as root")
    capability = "+dac_read_search"
    user = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    return [program, *user, "--inh-caps", capability, "--ambient-caps", capability]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts programs as an ordinary user and ends them."""
    started: list[subprocess.Popen[bytes]] = []

    def run(arguments: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([*as_user(), sys.executable, *arguments], **more)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()  # and close its pipes


def inspect(*pids: int) -> dict[int, list[str]]:
    words = [*as_user(), sys.executable, str(INSPECT), *map(str, pids)]
    done = subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE_S)
    return {int(pid): reached for pid, reached in json.loads(done.stdout).items()}


def wait_hidden(pid: int) -> None:
    """Wait until the kernel has given the files of a process in /proc to root. Its interpreter starts without that."""
    until = time.monotonic() + PATIENCE_S
    while os.stat(f"/proc/{pid}/environ").st_uid != 0:
        assert time.monotonic() < until, f"{psutil.Process(pid).cmdline()} can be inspected"
        time.sleep(0.01)  # another process


@pytest.mark.full
def test_no_process_of_the_user_reads_a_helper(start: Start) -> None:
    pids: list[int] = []
    ends: list[socket.socket] = []
    environment = {**os.environ, HOST_PID_VARIABLE: str(os.getpid())}
    for module in HELPERS:
        ours, theirs = socket.socketpair()
        with theirs:
            words = ["-P", "-m", module, str(theirs.fileno())]
            pids.append(start(words, env=environment, pass_fds=[theirs.fileno()]).pid)
        ends.append(ours)
    ours, theirs = socket.socketpair()
    with theirs:
        pids.append(start(["-P", "-m", "bollard.knowledge.extraction_child"], stdin=theirs).pid)
    ends.append(ours)
    ordinary = start(["-c", "print('here', flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert ordinary.stdout is not None
    assert ordinary.stdout.readline() == b"here\n"
    for pid in pids:
        wait_hidden(pid)
    found = inspect(ordinary.pid, *pids)
    assert {"environment", "addresses", "descriptors"} <= set(found.pop(ordinary.pid)), "another program is readable"
    assert found == {pid: [] for pid in pids}
    for end in ends:
        end.close()


@pytest.mark.full
def test_no_process_of_the_user_reads_the_host(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    if os.geteuid() == 0:
        os.chown(data, NOBODY, NOBODY)
    environment = {**os.environ, "HOME": str(data), "XDG_CONFIG_HOME": str(data), "BOLLARD_BUILTIN_PLUGINS": "false"}
    words = [
        str(Path(sys.executable).with_name("bollard")),
        "--json",
        "up",
        "--port",
        str(free_port()),
        "--data",
        str(data),
    ]
    host = start(words, env=environment, stdout=subprocess.PIPE)
    assert host.stdout is not None
    assert any(b'"listening"' in line for line in host.stdout)
    assert psutil.Process(host.pid).num_fds() > 0
    below = {
        child.pid: name
        for child in psutil.Process(host.pid).children(recursive=True)
        for name in HELPERS
        if name in child.cmdline()
    }
    assert "bollard.host.log.journal_process" in below.values()
    for pid in (host.pid, *below):
        wait_hidden(pid)
    assert inspect(host.pid, *below) == {pid: [] for pid in (host.pid, *below)}


@pytest.mark.full
def test_no_process_of_the_user_reads_a_worker_or_a_runtime(start: Start, tmp_path: Path) -> None:
    """A worker has the variables of its plugin, and a remote runtime its key. Neither needs a host to start."""
    plugin = tmp_path / "parrot.py"
    plugin.write_text(PARROT, encoding="utf-8")
    tmp_path.chmod(0o755)
    ours, theirs = socket.socketpair()
    with theirs:
        environment = {**os.environ, CHANNEL_FD_VARIABLE: str(theirs.fileno())}
        words = ["-P", "-m", "bollard.runtime", str(plugin)]
        worker = start(words, env=environment, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"loaded\n"
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the runtime waits for its answer
        url = f"ws://127.0.0.1:{silent.getsockname()[1]}/"
        runtime = start(["-P", "-m", "bollard.runtime", "--connect", url, "--", "true"])
        with silent.accept()[0]:
            pids = (worker.pid, runtime.pid)
            for pid in pids:
                wait_hidden(pid)
            assert inspect(*pids) == {pid: [] for pid in pids}
    ours.close()


@pytest.mark.full
def test_no_process_of_the_user_reads_the_processes_that_wait_for_a_sandbox(start: Start, tmp_path: Path) -> None:
    """Their memory has the order of the program, with its variables."""
    if not machine_findings().view:
        pytest.skip("no process waits for a sandbox on this machine")
    tmp_path.chmod(0o755)
    host = start(["-c", WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert host.stdout is not None
    outer = int(host.stdout.readline())
    (first,) = psutil.Process(outer).children()
    for pid in (outer, first.pid):
        wait_hidden(pid)
    assert inspect(outer, first.pid) == {outer: [], first.pid: []}


@pytest.mark.full
def test_no_process_of_the_user_reads_the_local_model(start: Start) -> None:
    """It keeps a key in memory. Without weights it ends at once, so it is held where its library is loaded."""
    held = start(["-c", HELD_MODEL], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert held.stdout is not None
    assert held.stdout.readline() == b"held\n"
    wait_hidden(held.pid)
    assert inspect(held.pid) == {held.pid: []}

"""A bad neighbour in a sandbox: its limits hold, and its end is the end of everything that it started."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.confine.hostile.run import Confined, level_of, make_place

from bollard.confine.cgroup import ControlGroup, GroupLimits, make_control_group
from bollard.confine.cgroup_places import find_places
from bollard.confine.limits import (
    LAUNCH_FILES,
    LAUNCH_HOME_BYTES,
    LAUNCH_HOME_FILES,
    LAUNCH_PROCESSES,
    LAUNCH_SHARED_BYTES,
)
from bollard.confine.probe import Findings

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024
WAIT_S = 60.0
LEVELS = ("full", "namespaces", "landlock")

Run = Callable[..., Awaitable[tuple[list[str], Confined]]]


@pytest.fixture
async def run(findings: Findings, tmp_path: Path):
    """Starts a hostile program at a level, and returns what it prints until the line `done`."""
    started: list[Confined] = []

    async def run(level_name: str, code: str, **needs: Any) -> tuple[list[str], Confined]:
        level = level_of(level_name, findings)
        if level is None:
            pytest.skip(f"this machine lacks the level {level_name}")
        argv = [sys.executable, "-c", textwrap.dedent(code)]
        confined = Confined(level, make_place(tmp_path), argv, network=False, stdin=subprocess.PIPE, **needs)
        started.append(confined)
        await confined.start()
        return await asyncio.to_thread(_read, confined), confined

    yield run
    for confined in started:
        await confined.close()


def _read(confined: Confined) -> list[str]:
    assert confined.process.stdout is not None
    lines: list[str] = []
    for line in confined.process.stdout:
        if line == "done\n":
            break
        lines.append(line.strip())
    return lines


def processes_with(marker: str) -> list[str]:
    """The processes of the machine that have this text in their command line."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in line and int(folder.name) != os.getpid():
            found.append(folder.name)
    return found


def is_there(path: str) -> bool:
    return os.path.exists(path)


def have_ended(handles: list[int]) -> bool:
    """Wait for the end of all these processes: the kernel ends those of a namespace a moment after its first one."""
    for handle in handles:
        ended, _, _ = select.select([handle], [], [], WAIT_S)
        os.close(handle)
        if not ended:
            return False
    return True


BOMB = """
    # MARKER
    import os, signal
    count = 0
    try:
        while count < 2000:
            if os.fork() == 0:
                signal.pause()
            count += 1
    except OSError:
        pass
    print(count)
    print("done", flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("level", LEVELS)
async def test_a_fork_bomb_is_bounded_and_ends_with_its_program(run: Run, level: str, findings: Findings):
    if "pids" not in findings.controllers:
        pytest.skip("control groups of this machine do not count processes")
    marker = f"bomb-{os.getpid()}-{level}"
    (count,), confined = await run(level, BOMB.replace("MARKER", marker))
    assert 10 < int(count) < LAUNCH_PROCESSES
    handles = [os.pidfd_open(int(pid)) for pid in processes_with(marker)]
    assert len(handles) > 10
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    assert await other.wait() == 0
    await confined.close()
    assert await asyncio.to_thread(have_ended, handles)


LEAVER = """
    # MARKER
    import os, signal, sys
    for number in range(1, 32):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_IGN)
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            os.setsid()
        except OSError:
            pass
        if os.fork() == 0:
            os.write(writing, b".")
            while True:
                signal.pause()
        os._exit(0)
    os.read(reading, 1)
    print("done", flush=True)
    while True:
        signal.pause()
"""


@pytest.mark.parametrize("level", [*LEVELS, "full+alone", "landlock+alone"])
async def test_a_process_that_leaves_its_session_and_ignores_signals_ends_with_its_program(run: Run, level: str):
    marker = f"leaver-{os.getpid()}-{level}"
    _, confined = await run(level, LEAVER.replace("MARKER", marker))
    handles = [os.pidfd_open(int(pid)) for pid in processes_with(marker)]
    assert len(handles) >= 2
    await confined.close()
    assert await asyncio.to_thread(have_ended, handles)


LITTERER = """
    import os, sys
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.write(writing, b".")
        number = 0
        while True:
            number += 1
            folder = f"{os.environ['HOME']}/{number}"
            try:
                os.mkdir(folder)
                os.close(os.open(folder + "/file", os.O_CREAT | os.O_WRONLY))
            except OSError:
                pass
    os.read(reading, 1)
    print(os.environ["HOME"])
    print("done", flush=True)
    sys.stdin.read()
"""


async def test_a_process_that_still_writes_leaves_no_files_behind(run: Run, findings: Findings):
    if "pids" not in findings.controllers:
        pytest.skip("without control groups no process leaves its session")
    (home,), confined = await run("landlock", LITTERER)
    assert is_there(home)
    await confined.close()
    assert not is_there(home)


async def test_programs_of_a_host_that_died_end_when_the_next_group_is_made(findings: Findings):
    places = {name: place for name, place in find_places().items() if name in findings.controllers}
    if "pids" not in places:
        pytest.skip("control groups of this machine do not count processes")
    dead = await asyncio.create_subprocess_exec("true")
    await dead.wait()
    orphan = await asyncio.create_subprocess_exec("sleep", "600")
    left = places["pids"] / f"bollard-{os.stat('/proc/self/ns/pid').st_ino}-{dead.pid}-0123456789abcdef"
    left.mkdir()
    (left / "cgroup.procs").write_text(str(orphan.pid), encoding="ascii")
    made = make_control_group(places, GroupLimits(processes=10))
    assert made.remove()
    assert await asyncio.wait_for(orphan.wait(), 60) == -signal.SIGKILL
    ControlGroup((left,)).remove()
    assert not left.exists()


HOG = """
    import os
    pids = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            taken = bytearray(100 * 1024 * 1024)
            for page in range(0, len(taken), 4096):
                taken[page] = 1
            os._exit(0)
        pids.append(pid)
    print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids))
    print("done", flush=True)
"""


@pytest.mark.parametrize("level", LEVELS)
async def test_a_memory_hog_loses_its_own_processes(run: Run, level: str, findings: Findings):
    if "memory" not in findings.controllers:
        pytest.skip("control groups of this machine do not limit memory")
    _, confined = await run(level, HOG, memory_bytes=64 * MIB)
    assert confined.launch is not None
    assert confined.launch.memory_kills >= 1


FILLER = """
    import errno, os

    def fill(folder):
        taken = 0
        try:
            for number in range(10):
                descriptor = os.open(f"{folder}/filler-{number}", os.O_CREAT | os.O_WRONLY)
                for _ in range(50):
                    os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, 1024 * 1024)
                    taken += 1024 * 1024
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
        return taken

    print(fill("/dev/shm"), fill("/tmp") + fill(os.environ["HOME"]))
    for folder in ("/tmp", os.environ["HOME"]):
        for name in os.listdir(folder):
            if name.startswith("filler"):
                os.unlink(f"{folder}/{name}")
    files = 0
    try:
        while files < 30_000:
            os.close(os.open(f"/tmp/{files}", os.O_CREAT | os.O_WRONLY))
            files += 1
    except OSError:
        pass
    print(files)
    for place in ("/", "/home", "/usr", "/dev", "/proc"):
        try:
            os.close(os.open(place + "/filler", os.O_CREAT | os.O_WRONLY))
            print("wrote into", place)
        except OSError:
            pass
    print("done", flush=True)
"""


@pytest.mark.full
@pytest.mark.parametrize("level", ["full", "namespaces"])
async def test_a_disk_filler_fills_its_own_memory(run: Run, level: str):
    lines, _ = await run(level, FILLER)
    shared, home = map(int, lines[0].split())
    assert shared <= LAUNCH_SHARED_BYTES
    assert LAUNCH_HOME_BYTES - 10 * MIB < home <= LAUNCH_HOME_BYTES
    assert int(lines[1]) <= LAUNCH_HOME_FILES
    assert lines[2:] == []


SPINNER = """
    import os, time
    start = time.monotonic()
    for _ in range(4):
        if os.fork() == 0:
            while time.monotonic() < start + 2:
                pass
            os._exit(0)
    for _ in range(4):
        os.wait()
    used = os.times()
    print((used.children_user + used.children_system) / (time.monotonic() - start))
    print("done", flush=True)
"""


@pytest.mark.full
@pytest.mark.parametrize("level", LEVELS)
async def test_busy_loops_use_no_more_processors_than_agreed(run: Run, level: str, findings: Findings):
    if "cpu" not in findings.controllers:
        pytest.skip("control groups of this machine do not limit processors")
    (share,), _ = await run(level, SPINNER, processors=0.3)
    assert float(share) < 0.5


OPENER = """
    import os
    count = 0
    try:
        while count < 100_000:
            os.open("/dev/null", os.O_RDONLY)
            count += 1
    except OSError:
        pass
    os.closerange(3, 100_000)
    print(count)
    print("done", flush=True)
"""


@pytest.mark.full
@pytest.mark.parametrize("level", LEVELS)
async def test_open_files_are_limited(run: Run, level: str):
    (count,), _ = await run(level, OPENER)
    assert int(count) <= LAUNCH_FILES

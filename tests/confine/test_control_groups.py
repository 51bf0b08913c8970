"""Control groups of one workspace and of version 2: their folders, their files, and what they limit together."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.confine.hostile.run import Confined, level_of, make_place

from bollard.confine.cgroup import GroupLimits, SharedGroup, make_control_group
from bollard.confine.cgroup_places import find_places
from bollard.confine.probe import Findings

MIB = 1024 * 1024
LIMITS = GroupLimits(processes=64, memory_bytes=256 * MIB, processors=0.5)

# --- groups of this machine ---


@pytest.fixture
def places(findings: Findings) -> Mapping[str, Path]:
    found = {name: place for name, place in find_places().items() if name in findings.controllers}
    if not {"pids", "memory", "cpu"} <= found.keys():
        pytest.skip("this machine lacks a controller")
    return found


def test_groups_of_one_workspace_are_in_one_group(places: Mapping[str, Path]) -> None:
    shared = SharedGroup(LIMITS)
    first, second = (shared.make(places, GroupLimits(processes=10, processors=9.0)) for _ in range(2))
    outer = {folder.parent for folder in first.folders}
    assert outer == {folder.parent for folder in second.folders}
    assert {folder.parent for folder in outer} == set(places.values())
    assert first.remove()
    assert first.remove()
    assert all(folder.exists() for folder in outer), "the second group is still in it"
    assert second.remove()
    assert not any(folder.exists() for folder in outer)
    third = shared.make(places, GroupLimits(processes=10))
    assert third.remove()


def test_groups_of_a_dead_host_are_removed_with_those_in_them(places: Mapping[str, Path]) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    orphan = subprocess.Popen(["sleep", "600"])
    name = f"bollard-{os.stat('/proc/self/ns/pid').st_ino}-{dead.pid}"
    outer = [place / f"{name}-{'0' * 16}" for place in dict.fromkeys(places.values())]
    for folder in outer:
        inner = folder / f"{name}-{'1' * 16}"
        inner.mkdir(parents=True)
        (inner / "cgroup.procs").write_text(str(orphan.pid), encoding="ascii")
    assert make_control_group(places, LIMITS).remove()
    assert orphan.wait(60) == -9
    make_control_group(places, LIMITS).remove()  # a group of version 1 empties a moment after its last process
    assert not any(folder.exists() for folder in outer)


# --- workers of this machine ---

EATER = """
    import sys
    taken = []
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            page = bytearray(1024 * 1024)
            page[::4096] = b"." * 256
            taken.append(page)
        print("taken", flush=True)
"""


class _Eater:
    def __init__(self, confined: Confined) -> None:
        self.confined = confined

    def take(self, mib: int) -> str:
        """Let it take memory. Empty if it was killed."""
        process = self.confined.process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{mib}\n")
        process.stdin.flush()
        return process.stdout.readline().strip()


@pytest.mark.anyio
@pytest.mark.parametrize("level_name", ["full", "landlock"])
async def test_two_workers_of_one_workspace_share_its_memory_and_another_workspace_is_untouched(
    findings: Findings, places: Mapping[str, Path], tmp_path: Path, level_name: str
) -> None:
    del places
    level = level_of(level_name, findings)
    if level is None:
        pytest.skip(f"this machine lacks the level {level_name}")
    one, other = SharedGroup(GroupLimits(memory_bytes=160 * MIB)), SharedGroup(GroupLimits(memory_bytes=160 * MIB))
    eaters: list[_Eater] = []
    try:
        for number, shared in enumerate((one, one, other)):
            place = make_place(tmp_path / str(number))
            argv = [sys.executable, "-c", textwrap.dedent(EATER)]
            confined = Confined(
                level, place, argv, network=False, stdin=subprocess.PIPE, shared_group=shared, memory_bytes=150 * MIB
            )
            eaters.append(_Eater(confined))
            await confined.start()
            assert confined.process.stdout is not None
            assert confined.process.stdout.readline() == "ready\n"
        first, second, stranger = eaters
        assert first.take(90) == "taken"
        assert stranger.take(90) == "taken"
        # Alone it may take 150 MiB. The first one, which has more, may be the one that is killed.
        ended = second.take(110)
        kills = [each.confined.launch.memory_kills for each in eaters if each.confined.launch is not None]
        assert sum(kills[:2]) >= 1, (ended, kills)
        assert kills[2] == 0
        assert stranger.take(10) == "taken"
    finally:
        for each in eaters:
            await each.confined.close()


# --- groups of version 2, in a folder laid out like them ---


@pytest.fixture
def process(tmp_path: Path) -> Path:
    """`/proc/self` of a service with a group of its own: a mount with one slice, and a service that gave it to us."""
    service = tmp_path / "cgroup" / "system.slice" / "bollard.service"
    service.mkdir(parents=True)
    for folder in (service, service.parent, service.parent.parent):
        (folder / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        (folder / "cgroup.subtree_control").write_text("cpu memory pids\n" if folder != service else "\n")
        (folder / "cgroup.procs").write_text("")
    (service / "cgroup.procs").write_text("4711\n")
    made = tmp_path / "self"
    made.mkdir()
    (made / "cgroup").write_text("0::/system.slice/bollard.service\n")
    mount = f"31 24 0:27 / {tmp_path}/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    (made / "mountinfo").write_text(f"24 1 8:1 / / rw - ext4 /dev/vda rw\n{mount}")
    return made


@pytest.fixture
def service(process: Path) -> Path:
    folder = process.parent / "cgroup" / "system.slice" / "bollard.service"
    try:
        os.setxattr(folder, "user.delegate", b"1")
    except OSError:
        pytest.skip("files here have no attributes of users")
    return folder


def test_a_service_passes_its_controllers_on_and_moves_its_own_processes_below(process: Path, service: Path) -> None:
    assert find_places(process) == dict.fromkeys(("pids", "memory", "cpu"), service)
    assert set((service / "cgroup.subtree_control").read_text().split()) == {"+pids", "+memory", "+cpu"}
    assert (service / "host" / "cgroup.procs").read_text() == "4711"


def test_a_group_that_nobody_gave_us_is_left_alone(process: Path) -> None:
    group = process.parent / "cgroup" / "system.slice" / "bollard.service"
    # Its parent passes controllers on, and only permissions keep a process of another user from it.
    assert find_places(process) == dict.fromkeys(("pids", "memory", "cpu"), group.parent)
    assert (group / "cgroup.subtree_control").read_text() == "\n"
    assert not (group / "host").exists()


def test_a_host_in_a_group_below_that_of_its_service_uses_that_of_the_service(process: Path, service: Path) -> None:
    find_places(process)
    for name in ("cgroup.controllers", "cgroup.subtree_control", "cgroup.procs"):
        (service / "host" / name).write_text("")
    (service / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (process / "cgroup").write_text("0::/system.slice/bollard.service/host\n")
    assert set(find_places(process).values()) == {service}


def test_groups_of_version_2_write_the_limits_of_the_workspace_and_of_the_worker(process: Path, service: Path) -> None:
    shared = SharedGroup(LIMITS)
    group = shared.make(find_places(process), GroupLimits(processes=8, memory_bytes=64 * MIB, processors=0.25))
    (folder,) = group.folders
    assert folder.parent.parent == service
    assert _texts(folder.parent) == {
        "pids.max": "64",
        "memory.max": str(256 * MIB),
        "memory.swap.max": "0",
        "cpu.max": "50000 100000",
        "cgroup.subtree_control": "+pids +memory +cpu",
    }
    assert _texts(folder) == {
        "pids.max": "8",
        "memory.max": str(64 * MIB),
        "memory.swap.max": "0",
        "cpu.max": "25000 100000",
    }
    group.kill()
    assert (folder / "cgroup.kill").read_text() == "1"


def test_an_unlimited_workspace_writes_no_limit(process: Path, service: Path) -> None:
    group = SharedGroup(GroupLimits()).make(find_places(process), LIMITS)
    assert service in group.folders[0].parents
    assert [*_texts(group.folders[0].parent)] == ["cgroup.subtree_control"]


def _texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}

"""Hosts in containers: the level that a container allows is that of the table, and `bollard doctor` shows it.

The container is an imitation: its namespaces, mounts, capabilities and system calls are those of a runtime.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.confine import under_profile
from tests.confine.hostile.table import measure
from tests.confine.test_hostile import SLICE, broken_promises

from bollard.confine.probe import Findings, probe

ROOT = Path(__file__).parents[2]
PROFILE = ROOT / "deploy" / "seccomp.json"
OWN = {"mount", "mount_setattr", "move_mount", "open_tree", "pivot_root", "umount2", "unshare"}
"""What the profile of runtimes refuses to programs without capabilities, besides namespaces by `clone`."""
NAMESPACE_FLAGS = 0x7E020000

InContainer = Callable[[Path], list[str]]


@pytest.fixture
def usual_profile(tmp_path: Path) -> Path:
    """The profile as it is without the calls for a file system of one's own."""
    profile = json.loads(PROFILE.read_text(encoding="utf-8"))
    for rule in profile["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name not in OWN | {"clone"}]
    no_namespaces = [{"index": 0, "op": "SCMP_CMP_MASKED_EQ", "value": NAMESPACE_FLAGS, "valueTwo": 0}]
    profile["syscalls"].append({"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": no_namespaces})
    written = tmp_path / "usual.json"
    written.write_text(json.dumps(profile), encoding="utf-8")
    written.chmod(0o644)
    return written


@pytest.fixture
def under() -> Callable[[Path], tuple[str, ...]]:
    """The start of a command line that runs a command with the system calls of a profile."""
    if under_profile.find_library() is None:
        pytest.skip("there is no libseccomp here")
    return lambda profile: (sys.executable, under_profile.__file__, str(profile))


@pytest.fixture
def contained() -> InContainer:
    """The start of a command line that runs a command in a container with a profile."""
    if os.geteuid() != 0 or under_profile.find_library() is None:
        pytest.skip("only the superuser imitates a container, with libseccomp")
    return lambda profile: [sys.executable, "-m", "tests.confine.in_container", str(profile)]


# --- the profile ---


def test_workers_get_all_that_the_machine_has_under_the_profile(
    under: Callable[[Path], Sequence[str]], findings: Findings
) -> None:
    assert probe(wrapper=tuple(under(PROFILE))) == findings


def test_without_our_calls_a_profile_leaves_no_namespaces(
    under: Callable[[Path], Sequence[str]], usual_profile: Path, findings: Findings
) -> None:
    found = probe(wrapper=tuple(under(usual_profile)))
    assert (found.view, found.namespaces) == (False, False)
    assert (found.landlock, found.seccomp) == (findings.landlock, findings.seccomp)


def test_a_whole_launch_uses_only_calls_that_the_profile_allows(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("there is no strace here")
    trace, place = tmp_path / "trace", tmp_path / "place"
    place.mkdir()
    command = [sys.executable, "-m", "tests.confine.hostile.run", str(place), "full+alone", "read_database"]
    subprocess.run([strace, "-f", "-qq", "-o", trace, *command, "--network"], cwd=ROOT, check=True, capture_output=True)
    used = set(re.findall(r"^\d+ +([a-z]\w+)\(", trace.read_text(errors="replace"), re.MULTILINE))
    assert used >= OWN | {"landlock_restrict_self", "prctl"}
    assert used - allowed() <= {"clone3"}, "libraries fall back to clone"


def allowed() -> set[str]:
    rules = json.loads(PROFILE.read_text(encoding="utf-8"))["syscalls"]
    return {name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}


# --- the container ---


def doctor(command: list[str], folder: Path) -> dict[str, Any]:
    bollard = str(Path(sys.executable).with_name("bollard"))
    done = subprocess.run(
        [*command, bollard, "doctor", "--json", "--data", str(folder / "data")],
        cwd=ROOT,
        env={"PATH": os.defpath, "HOME": str(folder), "BOLLARD_PORT": "1", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return {finding["check"]: finding for finding in json.loads(done.stdout)["findings"]}


@pytest.mark.parametrize(("profile", "check"), [("usual", "workers_landlock"), ("ours", "workers_namespaces")])
def test_the_doctor_of_a_container_shows_the_level_of_its_profile(
    contained: InContainer, usual_profile: Path, findings: Findings, profile: str, check: str
) -> None:
    if not (findings.view and findings.landlock):
        pytest.skip("a mechanism is missing here")
    with tempfile.TemporaryDirectory(prefix="contained-") as folder:
        os.chmod(folder, 0o777)
        found = doctor(contained(usual_profile if profile == "usual" else PROFILE), Path(folder))
    assert found[check]["severity"] == "warning"
    assert found[check]["fields"]["missing"] == ("namespaces" if profile == "usual" else "groups")
    assert "worker_limits" not in found


@pytest.mark.full
@pytest.mark.parametrize(("profile", "level"), [("usual", "landlock+alone"), ("ours", "full+alone")])
def test_promises_hold_in_a_container(contained: InContainer, usual_profile: Path, profile: str, level: str) -> None:
    user = [*contained(usual_profile if profile == "usual" else PROFILE), sys.executable]
    outcomes = measure(level, SLICE, user=user)
    assert outcomes is not None
    assert broken_promises(level, outcomes) == {}

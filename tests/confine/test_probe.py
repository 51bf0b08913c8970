"""S07: the level is probed with real processes, shown, and never less than required."""

import ctypes
import itertools
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from tests.replacement import replace
from tests.tables import for_each

from bollard.confine.errors import LevelMissing
from bollard.confine.jail import bubblewrap_line
from bollard.confine.launcher import Program, run_confined
from bollard.confine.limits import STATUS_BYTES
from bollard.confine.order import DEMANDS, JailOrder
from bollard.confine.probe import Findings, choose_confinement, probe
from bollard.confine.seccomp import REFUSED, REFUSED_WITHOUT_NAMESPACES, jail_filter

ALL = Findings(
    tried=True, landlock=7, seccomp=True, namespaces=True, bubblewrap="/usr/bin/bwrap", processes="cgroup", openat2=True
)


def hiding(*calls: str) -> tuple[str, ...]:
    """A program that starts another for which these calls do not exist."""
    code = (
        "import errno, os, sys; from bollard.confine.seccomp import build_filter, install; "
        f"install(build_filter(dict.fromkeys({list(calls)!r}, errno.ENOSYS))); os.execv(sys.argv[1], sys.argv[1:])"
    )
    return (sys.executable, "-c", code)


def test_a_restriction_of_the_kernel_is_found(findings: Findings):
    """Asked in another way: a wall of ours that does not hold must not pass for a machine that has none."""
    libc = ctypes.CDLL(None)
    assert findings.tried
    assert findings.landlock == max(0, libc.syscall(444, None, 0, 1))
    known = platform.machine() in ("x86_64", "aarch64")
    assert findings.seccomp == (known and "Seccomp:" in Path("/proc/self/status").read_text())
    asking = (
        "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000 | 0x20000))"  # user and mount namespaces
    )
    asked = subprocess.run([sys.executable, "-I", "-c", asking], check=False, timeout=120)
    assert findings.namespaces == (asked.returncode == 0)
    assert choose_confinement("any", findings).shown in ("bubblewrap", "landlock+seccomp", "none")


@for_each(
    ("hidden", "field", "nothing"),
    [
        (("landlock_create_ruleset",), "landlock", 0),
        (("landlock_restrict_self",), "landlock", 0),
        (("unshare",), "namespaces", False),
        (("mount_setattr",), "namespaces", False),
        (("openat2",), "openat2", False),
    ],
)
def test_a_missing_restriction_of_the_kernel_is_not_found(hidden, field, nothing):
    found = probe(wrapper=hiding(*hidden))
    assert found.tried
    assert getattr(found, field) == nothing


def test_a_failed_probe_finds_nothing():
    found = probe(wrapper=("/bin/false",))
    assert found == Findings(bubblewrap=found.bubblewrap)
    assert "could not be probed" in choose_confinement("landlock+seccomp", found).problem


@pytest.mark.anyio
async def test_a_machine_without_restrictions_runs_no_program(tmp_path: Path):
    found = probe(wrapper=hiding("landlock_create_ruleset", "unshare"))
    confinement = choose_confinement("landlock+seccomp", found)
    program = Program(
        argv=("/bin/sh", "-c", "echo > ran"), cwd=tmp_path, writable=(tmp_path,), timeout_s=60, output_bytes=1
    )
    with pytest.raises(LevelMissing) as refused:
        await run_confined(program, confinement)
    assert "Landlock" in refused.value.message
    assert refused.value.hint
    assert os.listdir(tmp_path) == []


def test_every_required_level_is_available_or_has_a_reason():
    """All of it: nothing that is demanded is ever answered with less."""
    machines = itertools.product(
        (True, False), (0, 1, 5, 6, 7), (True, False), (True, False), ("", "/usr/bin/bwrap"), ("cgroup", "user", "none")
    )
    for tried, landlock, seccomp, namespaces, bubblewrap, processes in machines:
        found = Findings(
            tried=tried,
            landlock=landlock,
            seccomp=seccomp,
            namespaces=namespaces,
            bubblewrap=bubblewrap,
            processes=processes,
        )
        for demand in DEMANDS:
            confinement = choose_confinement(demand, found)
            if confinement.level is None:
                assert confinement.problem
                assert confinement.hint
                with pytest.raises(LevelMissing):
                    confinement.demanded()
                continue
            assert demand != "off"
            assert tried
            assert processes != "none"
            assert demand in ("any", confinement.level)
            if confinement.level == "bubblewrap":
                assert confinement.bubblewrap == bubblewrap != ""
            else:
                assert landlock
                assert seccomp
                assert confinement.namespaces == namespaces
                assert namespaces or landlock >= 6


def test_the_best_level_is_chosen_and_a_required_one_is_kept():
    assert choose_confinement("any", ALL).level == "bubblewrap"
    assert choose_confinement("landlock+seccomp", ALL).level == "landlock+seccomp"
    assert choose_confinement("any", replace(ALL, bubblewrap="")).level == "landlock+seccomp"
    assert choose_confinement("bubblewrap", replace(ALL, bubblewrap="")).level is None


def test_the_command_of_bubblewrap_names_only_existing_paths():
    order = JailOrder(
        level="bubblewrap",
        namespaces=False,
        bubblewrap="/usr/bin/bwrap",
        argv=("/bin/sh", "-c", "--unshare-nothing"),
        cwd="/data/run/files",
        environment={"PATH": "/usr/bin"},
        readable=("/usr",),
        writable=("/data/run/files",),
        parent=1,
        status=4,
    )
    line = bubblewrap_line(order, 9)
    options, program = line[: line.index("--")], line[line.index("--") + 1 :]
    assert program == list(order.argv)
    assert {"--unshare-all", "--die-with-parent", "--clearenv"} <= set(options)
    assert [options[at + 1] for at, option in enumerate(options) if option == "--bind"] == ["/data/run/files"]
    assert [options[at + 1] for at, option in enumerate(options) if option == "--ro-bind-try"] == ["/usr"]
    assert options[options.index("--seccomp") + 1] == "9"
    # what bubblewrap keeps in memory is bounded by nothing, so nothing is written there
    assert "--tmpfs" not in options
    assert [options[at + 1] for at, option in enumerate(options) if option == "--remount-ro"] == ["/dev", "/"]
    assert JailOrder.decode(order.encode()) == order


def test_the_filter_has_a_valid_size_and_names_every_refused_call():
    for namespaces in (True, False):
        program = jail_filter(namespaces=namespaces)
        assert len(program) % 8 == 0
        assert len(program) < 4096 * 8  # what the kernel takes; a pipe holds it too
    assert len(jail_filter(namespaces=False)) > len(jail_filter(namespaces=True))
    assert not REFUSED.keys() & REFUSED_WITHOUT_NAMESPACES.keys()
    assert len(json.dumps({"code": None, "problem": "x" * 1000})) < STATUS_BYTES

"""Which confinement this machine really has: tried with real processes, not guessed from versions."""

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any, Final, Literal

from bollard.confine.errors import LevelMissing
from bollard.confine.limits import PROBE_S
from bollard.confine.order import Demand, Level

__all__ = ["Findings", "Walls", "machine_findings", "probe", "walls_of"]

_TRIAL: Final = (sys.executable, "-I", "-m", "bollard.confine.trial")
_SCOPED_FROM: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was tried, and whether it held."""

    tried: bool = False
    """Whether anything could be tried at all."""
    landlock: int = 0
    """Its version; 0 where it is absent or did not hold."""
    seccomp: bool = False
    namespaces: bool = False
    """User, mount, process and network namespaces of one's own."""
    bubblewrap: str = ""
    """Where it is; empty where it is absent or could not start a program."""
    processes: Literal["cgroup", "user", "none"] = "none"
    """What bounds the number of processes: a control group, or the limit of the user, which the superuser has not."""
    openat2: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """The level that programs get here, of those that the settings allow."""

    demand: Demand
    level: Level | None
    namespaces: bool = False
    bubblewrap: str = ""
    problem: str = ""
    """Why there is no level."""
    hint: str = ""
    findings: Findings = Findings()

    def demanded(self) -> Level:
        """The level, or a refusal: never less than was demanded."""
        if self.level is None:
            raise LevelMissing(self.problem, hint=self.hint)
        return self.level

    @property
    def shown(self) -> str:
        return self.level or "none"


def walls_of(demand: Demand, findings: Findings) -> Walls:
    """What the demand means on a machine with these findings. Pure."""
    problem = _missing(findings, demand)
    if problem is not None:
        return Walls(demand=demand, level=None, problem=problem[0], hint=problem[1], findings=findings)
    if findings.bubblewrap and demand != "landlock+seccomp":
        return Walls(demand=demand, level="bubblewrap", bubblewrap=findings.bubblewrap, findings=findings)
    return Walls(demand=demand, level="landlock+seccomp", namespaces=findings.namespaces, findings=findings)


@functools.cache
def machine_findings() -> Findings:
    """What the probe found, once in a process: a machine does not change while a host runs on it."""
    return probe()


def probe(*, wrapper: tuple[str, ...] = ()) -> Findings:
    """Try everything. Takes a few processes and some tens of milliseconds. `wrapper` stands before each of them."""
    tried = _tried((*wrapper, *_TRIAL))
    return Findings(
        tried=bool(tried),
        landlock=int(tried.get("landlock", 0)),
        seccomp=bool(tried.get("seccomp", False)),
        namespaces=bool(tried.get("namespaces", False)),
        openat2=bool(tried.get("openat2", False)),
        processes=tried.get("processes", "none"),
        bubblewrap=_bubblewrap(wrapper),
    )


def _missing(findings: Findings, demand: Demand) -> tuple[str, str] | None:
    """Why no level fulfils the demand, and what to do about it."""
    if demand == "off":
        return "programs are not run on this host", "the setting sandbox is off; set it to any"
    if not findings.tried:
        return "nobody could find out how to confine programs here", "look whether the host can start its own Python"
    if findings.processes == "none":
        return (
            "nothing on this machine bounds the number of processes of a program",
            "run the host as a user of its own instead of the superuser, or let it make control groups (pids)",
        )
    if demand in ("any", "bubblewrap") and findings.bubblewrap:
        return None
    if demand == "bubblewrap":
        return "bubblewrap is demanded and cannot be used here", "install bubblewrap, or set sandbox to any"
    return _landlock_missing(findings)


def _landlock_missing(findings: Findings) -> tuple[str, str] | None:
    advice = "use a newer kernel, install bubblewrap, or set sandbox to off"
    if not findings.landlock:
        return "this kernel does not confine files (no Landlock)", advice
    if not findings.seccomp:
        return "this kernel does not filter system calls (no seccomp, or not on this machine's architecture)", advice
    if findings.landlock < _SCOPED_FROM and not findings.namespaces:
        return (
            f"nothing here keeps a program from signalling others (Landlock {findings.landlock}, no user namespaces)",
            "allow user namespaces, install bubblewrap, or use a kernel with Landlock 6",
        )
    return None


def _tried(line: tuple[str, ...]) -> dict[str, Any]:
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            line, capture_output=True, timeout=PROBE_S, check=False, stdin=subprocess.DEVNULL, env={"LANG": "C.UTF-8"}
        )
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}


def _bubblewrap(wrapper: tuple[str, ...]) -> str:
    """Where bubblewrap is, if it starts a program with the namespaces that we use."""
    path = shutil.which("bwrap", path=os.defpath)
    if path is None:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        line = [*wrapper, path, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--dev", "/dev"]
        line += ["--ro-bind", "/", "/", "--bind", folder, folder, "--remount-ro", "/", "--", "/bin/sh", "-c", "exit 7"]
        try:
            done = subprocess.run(  # noqa: S603 - the machine's own program, by its absolute path
                line, capture_output=True, timeout=PROBE_S, check=False, stdin=subprocess.DEVNULL, env={}
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
    return path if done.returncode == 7 else ""

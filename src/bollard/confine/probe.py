"""Probes the confinement of this machine with real processes instead of version checks."""

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

_TRIAL: Final = (sys.executable, "-I", "-m", "bollard.confine.trial")
_SCOPED_FROM: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The results of the probe."""

    tried: bool = False
    """Whether the probe could run."""
    landlock: int = 0
    """The version of Landlock; 0 if it is absent or ineffective."""
    seccomp: bool = False
    namespaces: bool = False
    """Whether user, mount, process and network namespaces can be created."""
    view: bool = False
    """Whether a program can have a file system of its own."""
    controllers: tuple[str, ...] = ()
    """What control groups that we create can limit."""
    bubblewrap: str = ""
    """The path of bubblewrap; empty if it is absent or cannot start a program."""
    processes: Literal["cgroup", "user", "none"] = "none"
    """The limit on processes: a control group, or the user's limit, which does not bind the superuser."""
    openat2: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The level of confinement that programs get, according to the setting and the probe."""

    demand: Demand
    level: Level | None
    namespaces: bool = False
    bubblewrap: str = ""
    problem: str = ""
    """Why there is no level."""
    hint: str = ""
    missing: str = ""
    """The type of the problem, by which a translation is found."""
    findings: Findings = Findings()

    def demanded(self) -> Level:
        """Return the level. Raises `LevelMissing` instead of falling back to less than was demanded."""
        if self.level is None:
            raise LevelMissing(self.problem, hint=self.hint, missing=self.missing)
        return self.level

    @property
    def shown(self) -> str:
        return self.level or "none"


def choose_confinement(demand: Demand, findings: Findings) -> Confinement:
    """Choose the confinement for a demand on a machine with these findings. Pure."""
    problem = _explain_missing(findings, demand)
    if problem is not None:
        missing, sentence, hint = problem
        return Confinement(demand=demand, level=None, problem=sentence, hint=hint, missing=missing, findings=findings)
    if findings.bubblewrap and demand != "landlock+seccomp":
        return Confinement(demand=demand, level="bubblewrap", bubblewrap=findings.bubblewrap, findings=findings)
    return Confinement(demand=demand, level="landlock+seccomp", namespaces=findings.namespaces, findings=findings)


@functools.cache
def machine_findings() -> Findings:
    """Return the findings of this machine. The probe runs once in a process."""
    return probe()


def probe(*, wrapper: tuple[str, ...] = ()) -> Findings:
    """Probe the machine with a few processes, in some tens of milliseconds. `wrapper` prefixes each command."""
    tried = _run_trial((*wrapper, *_TRIAL))
    return Findings(
        tried=bool(tried),
        landlock=int(tried.get("landlock", 0)),
        seccomp=bool(tried.get("seccomp", False)),
        namespaces=bool(tried.get("namespaces", False)),
        view=bool(tried.get("view", False)),
        controllers=tuple(tried.get("controllers", ())),
        openat2=bool(tried.get("openat2", False)),
        processes=tried.get("processes", "none"),
        bubblewrap=_find_bubblewrap(wrapper),
    )


def _explain_missing(findings: Findings, demand: Demand) -> tuple[str, str, str] | None:
    """Return the type of the problem, the problem and the hint if no level fulfils the demand."""
    if demand == "off":
        return "off", "programs are not run on this host", "the setting sandbox is off; set it to any"
    if not findings.tried:
        return (
            "not_probed",
            "the confinement of this machine could not be probed",
            "check that the host can start its own Python",
        )
    if findings.processes == "none":
        return (
            "processes",
            "nothing on this machine bounds the number of processes of a program",
            "run the host as a user of its own instead of the superuser, or let it make control groups (pids)",
        )
    if demand in ("any", "bubblewrap") and findings.bubblewrap:
        return None
    if demand == "bubblewrap":
        return (
            "bubblewrap",
            "the setting sandbox needs bubblewrap, which does not work here",
            "install it, or set sandbox to any",
        )
    return _explain_missing_landlock(findings)


def _explain_missing_landlock(findings: Findings) -> tuple[str, str, str] | None:
    advice = "use a newer kernel, install bubblewrap, or set sandbox to off"
    if not findings.landlock:
        return "landlock", "this kernel does not confine files (no Landlock)", advice
    if not findings.seccomp:
        return (
            "seccomp",
            "this kernel does not filter system calls (no seccomp, or not on this machine's architecture)",
            advice,
        )
    if findings.landlock < _SCOPED_FROM and not findings.namespaces:
        return (
            "signals",
            f"nothing here keeps a program from signalling others (Landlock {findings.landlock}, no user namespaces)",
            "allow user namespaces, install bubblewrap, or use a kernel with Landlock 6",
        )
    return None


def _run_trial(line: tuple[str, ...]) -> dict[str, Any]:
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            line, capture_output=True, timeout=PROBE_S, check=False, stdin=subprocess.DEVNULL, env={"LANG": "C.UTF-8"}
        )
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}


def _find_bubblewrap(wrapper: tuple[str, ...]) -> str:
    """Return the path of bubblewrap if it starts a program with our namespaces."""
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

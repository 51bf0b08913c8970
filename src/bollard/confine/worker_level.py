"""The confinement that workers and servers get, according to a setting and the probe of the machine. Pure."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from bollard.confine.order import WorkerDemand
from bollard.confine.probe import Findings

LevelName = Literal["full", "namespaces", "landlock", "none"]
LEVELS: Final[tuple[LevelName, ...]] = get_args(LevelName)
_SCOPED_FROM: Final = 6
_TCP_FROM: Final = 4
_GROUPS: Final = ("pids", "memory", "cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLevel:
    """The level of confinement of long-running programs."""

    demand: WorkerDemand
    name: LevelName
    """`full`: own processes, files and network, Landlock, a filter of system calls, and a control group that limits
    processes, memory and processors. `namespaces`: the same without Landlock or a part of the control group.
    `landlock`: Landlock and the filter."""
    namespaces: bool = False
    landlock: int = 0
    """The version of Landlock; 0 if it is not used."""
    seccomp: bool = False
    controllers: tuple[str, ...] = ()
    """What control groups limit here."""
    missing: str = ""
    """The type of what the full level lacks; empty at the full level and if none is wanted."""
    problem: str = ""
    hint: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether nothing may start."""
        return self.demand == "strict" and self.name != "full"

    @property
    def limits_ports(self) -> bool:
        """Whether a program without a network of its own can be bound to the port of the proxy."""
        return self.landlock >= _TCP_FROM


UNCONFINED: Final = WorkerLevel(demand="none", name="none")


def choose_level(demand: WorkerDemand, findings: Findings) -> WorkerLevel:
    """Choose the level for a demand on a machine with these findings."""
    if demand == "none":
        return WorkerLevel(demand=demand, name="none")
    missing, problem, hint = _explain_missing(findings)
    name: LevelName = "none"
    if findings.seccomp and findings.view:
        name = "namespaces" if missing else "full"
    elif findings.seccomp and findings.landlock:
        name = "landlock"
    if name == "none":
        return WorkerLevel(demand=demand, name=name, missing=missing, problem=problem, hint=hint)
    return WorkerLevel(
        demand=demand,
        name=name,
        namespaces=findings.view,
        landlock=findings.landlock,
        seccomp=True,
        controllers=findings.controllers,
        missing=missing,
        problem=problem,
        hint=hint,
    )


def _explain_missing(findings: Findings) -> tuple[str, str, str]:
    """Return the type of what the full level lacks, a sentence and a hint; empty if it lacks nothing."""
    if not findings.tried:
        return (
            "not_probed",
            "the confinement of this machine could not be probed",
            "check that the host can start its own Python",
        )
    if not findings.seccomp:
        return (
            "seccomp",
            "this kernel does not filter system calls (no seccomp, or not on this machine's architecture)",
            "use a newer kernel",
        )
    if not findings.view:
        return (
            "namespaces",
            "user namespaces with mounts of their own cannot be created here",
            "allow user namespaces for the host's user; in a container, allow them in its security profile",
        )
    if findings.landlock < _SCOPED_FROM:
        return ("landlock", f"Landlock 6 is absent here (found {findings.landlock})", "use a kernel from 6.12 on")
    if not all(each in findings.controllers for each in _GROUPS):
        return (
            "groups",
            "control groups for processes, memory and processors cannot all be created here",
            "start the host as a service with Delegate=yes, as deploy/ does",
        )
    return "", "", ""

"""What a jail is told: the program, where it may read and write, and how far it may go. Travels as JSON."""

import json
import os
import sys
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, get_args

from bollard.confine.limits import CPU_S, JAIL_FILE_BYTES, MEMORY_BYTES, OPEN_FILES, PROCESSES

__all__ = ["DEMANDS", "DEVICES", "Demand", "JailLimits", "JailOrder", "Level", "readable_above", "system_places"]

Level = Literal["bubblewrap", "landlock+seccomp"]
Demand = Literal["any", "bubblewrap", "landlock+seccomp", "off"]
DEMANDS: Final[tuple[Demand, ...]] = get_args(Demand)
"""What an operator may ask for: one of the levels, whichever is there, or no programs at all."""

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_SYSTEM: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/alternatives",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
)


def system_places() -> tuple[str, ...]:
    """Programs and libraries of the machine, and the Python of the host: what a program may read and start."""
    return (*_SYSTEM, *(os.path.join(sys.base_prefix, name) for name in ("bin", "lib", "lib64")))


def readable_above(path: str) -> str | None:
    """The place among them that this path lies in, and so can be read by programs."""
    whole = os.path.realpath(path)
    for place in map(os.path.realpath, system_places()):
        if os.path.commonpath((whole, place)) == place:
            return place
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class JailLimits:
    """How far each process of a program may go, and how many there may be."""

    memory_bytes: int = MEMORY_BYTES
    file_bytes: int = JAIL_FILE_BYTES
    open_files: int = OPEN_FILES
    processes: int = PROCESSES
    cpu_s: int = CPU_S


@dataclass(frozen=True, slots=True, kw_only=True)
class JailOrder:
    """One program and its walls."""

    level: Level
    namespaces: bool
    """Whether Landlock and the filter get namespaces beside them."""
    bubblewrap: str = ""
    """Where bubblewrap is, when that is the level."""
    argv: tuple[str, ...]
    cwd: str
    environment: dict[str, str]
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    group: str = ""
    """The control group to enter; empty where the number of processes is a limit of the user."""
    parent: int
    """Who started the jail: when it is gone, so is the program."""
    status: int
    """The descriptor at which the jail says what came of it."""
    limits: JailLimits = field(default_factory=JailLimits)

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(text: bytes) -> "JailOrder":
        """What `encode` wrote, by this same version: the jail is started by the host that it serves."""
        told: dict[str, Any] = json.loads(text)
        told["limits"] = JailLimits(**told["limits"])
        for name in ("argv", "readable", "writable"):
            told[name] = tuple(told[name])
        return JailOrder(**told)

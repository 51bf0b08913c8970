"""The order of a jail: the program, its readable and writable paths, and its limits. Sent as JSON."""

import json
import os
import sys
from typing import Any, Final, Literal, NamedTuple, get_args

from bollard.confine.limits import CPU_S, JAIL_FILE_BYTES, MEMORY_BYTES, OPEN_FILES, PROCESSES

Level = Literal["bubblewrap", "landlock+seccomp"]
Demand = Literal["any", "bubblewrap", "landlock+seccomp", "off"]
DEMANDS: Final[tuple[Demand, ...]] = get_args(Demand)
"""The values of the setting: one level, any available level, or no programs at all."""
WorkerDemand = Literal["strict", "best", "none"]
WORKER_DEMANDS: Final[tuple[WorkerDemand, ...]] = get_args(WorkerDemand)
"""The values of the setting for workers: the full level or nothing starts, the strongest available one, or none."""

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
    """Return the paths that a program may read and execute: the system's programs and the host's Python."""
    return (*_SYSTEM, *(os.path.join(sys.base_prefix, name) for name in ("bin", "lib", "lib64")))


def readable_above(path: str) -> str | None:
    """Return the system path that contains `path` and so makes it readable for programs, if any."""
    whole = os.path.realpath(path)
    for place in map(os.path.realpath, system_places()):
        if os.path.commonpath((whole, place)) == place:
            return place
    return None


class JailLimits(NamedTuple):
    """The limits of each process of a program, and of their number."""

    memory_bytes: int = MEMORY_BYTES
    file_bytes: int = JAIL_FILE_BYTES
    open_files: int = OPEN_FILES
    processes: int = PROCESSES
    cpu_s: int = CPU_S


class JailOrder(NamedTuple):
    """One program and its confinement."""

    level: Level
    namespaces: bool
    """Whether namespaces are added to Landlock and the filter."""
    argv: tuple[str, ...]
    cwd: str
    environment: dict[str, str]
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    parent: int
    """The pid of the host. The program ends when the host exits."""
    status: int
    """The descriptor for the status report."""
    bubblewrap: str = ""
    """The path of bubblewrap, if that is the level."""
    group: str = ""
    """The control group to enter; empty if the limit of the user bounds the processes."""
    limits: JailLimits = JailLimits()

    def encode(self) -> bytes:
        return json.dumps({**self._asdict(), "limits": self.limits._asdict()}).encode()

    @staticmethod
    def decode(text: bytes) -> "JailOrder":
        """Decode what `encode` wrote. Host and jail always have the same version."""
        fields: dict[str, Any] = json.loads(text)
        fields["limits"] = JailLimits(**fields["limits"])
        for name in ("argv", "readable", "writable"):
            fields[name] = tuple(fields[name])
        return JailOrder(**fields)

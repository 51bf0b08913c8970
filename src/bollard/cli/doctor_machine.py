"""What the machine says: who holds a lock, who listens on a port, how clocks ran, what confines a process."""

import errno
import os
import resource
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from bollard.cli.doctor_facts import SandboxFacts
from bollard.confine.order import Demand
from bollard.confine.probing import probe, walls_of

__all__ = ["drift_of", "file_limit", "listening_problem", "lock_holder", "port_owner", "sandbox_facts"]

_LISTENING: Final = "0A"
_TCP_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")


def lock_holder(path: Path) -> int | None:
    """Who holds a lock on a file, as the kernel says: taking it to see would keep a host from starting."""
    try:
        number = path.stat().st_ino
        lines = Path("/proc/locks").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if "->" not in words and words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(number):
            return int(words[4])
    return None


def listening_problem(host: str, port: int) -> int | None:
    """The error with which a host could not listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno or errno.EINVAL
    return None


def port_owner(port: int) -> tuple[str, int] | None:
    """The name and the id of the process that listens on a port, where this user may know."""
    sockets = set(_listening(port))
    for folder in Path("/proc").iterdir():
        if not sockets or not folder.name.isdigit():
            continue
        with suppress(OSError):
            for descriptor in (folder / "fd").iterdir():
                if str(descriptor.readlink()) in sockets:
                    name = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
                    return name, int(folder.name)
    return None


def _listening(port: int) -> list[str]:
    found: list[str] = []
    for table in _TCP_TABLES:
        with suppress(OSError):
            for line in Path(table).read_text(encoding="utf-8").splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENING and int(words[1].rpartition(":")[2], 16) == port:
                    found.append(f"socket:[{words[9]}]")
    return found


def drift_of(pid: int, since_wall_s: float) -> float | None:
    """How much further the wall clock went than the steady one since a process started, which was at `since_wall_s`."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        steady_s = time.clock_gettime(time.CLOCK_BOOTTIME) - started_s
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    return (time.time() - since_wall_s) - steady_s


def file_limit() -> int:
    """Files that a host started from here may have open: it raises its limit as far as it is allowed to."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def sandbox_facts(demand: Demand) -> SandboxFacts:
    """Tried with real processes, the way a host does."""
    walls = walls_of(demand, probe())
    return SandboxFacts(
        level=walls.level,
        problem=walls.problem,
        hint=walls.hint,
        landlock=walls.findings.landlock,
        user_namespaces=walls.findings.namespaces,
        bubblewrap=bool(walls.findings.bubblewrap),
    )

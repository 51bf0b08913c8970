"""Control groups of version 1 and 2, which limit processes, memory and processors of a program and everything that it
starts: the only limits that also apply to the superuser."""

import contextlib
import os
import secrets
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PREFIX: Final = "bollard-"
CONTROLLERS: Final = ("pids", "memory", "cpu")
_PERIOD_US: Final = 100_000
_KILLS: Final = 20

Places = Mapping[str, Path]
"""The groups beneath which we may create groups, for each controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """The limits of one group. `None` is unlimited."""

    processes: int
    memory_bytes: int | None = None
    processors: float | None = None


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """One group: a folder for each hierarchy."""

    folders: tuple[Path, ...]

    def kill(self) -> None:
        """Kill every process in the group, also those that left their session."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                (folder / "cgroup.kill").write_text("1", encoding="ascii")
                return
        for _ in range(_KILLS):  # version 1: a process may start another one meanwhile
            found = self._processes()
            if not found:
                return
            for pid in found:  # never 0, a process that this one does not see: it would mean its own group
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def remove(self) -> bool:
        """Remove the group, and return whether it is gone. A group with processes stays; a later host removes it."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
        return not any(folder.exists() for folder in self.folders)

    def memory_kills(self) -> int:
        """How many processes were killed because the group was out of memory."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError, ValueError):
                    for line in (folder / name).read_text(encoding="ascii").splitlines():
                        word, _, number = line.partition(" ")
                        if word == "oom_kill":
                            return int(number)
        return 0

    def _processes(self) -> list[int]:
        for folder in self.folders:
            with contextlib.suppress(OSError, ValueError):
                pids = map(int, (folder / "cgroup.procs").read_text(encoding="ascii").split())
                return [pid for pid in pids if pid > 0]
        return []


def find_places() -> dict[str, Path]:
    """Return where we may create groups, for each controller that we may use."""
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    found: dict[str, Path] = {}
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if controllers:
            wanted = [each for each in CONTROLLERS if each in controllers.split(",")]
            place = _find_mount(mounts, "cgroup", wanted[0], path) if wanted else None
            if place is not None and os.access(place, os.W_OK):
                found.update(dict.fromkeys(wanted, place))
        else:
            whole = _find_mount(mounts, "cgroup2", "", path)
            for place in () if whole is None else (whole, whole.parent):  # a service may run in a group below its own
                delegated = [each for each in _delegated(place) if each in CONTROLLERS and each not in found]
                if delegated and os.access(place, os.W_OK) and os.access(place / "cgroup.procs", os.W_OK):
                    found.update(dict.fromkeys(delegated, place))
                    break
    return found


def find_pids_group() -> Path | None:
    """Return the group beneath which we may create groups that limit processes."""
    return find_places().get("pids")


def make_control_group(places: Places, limits: GroupLimits) -> ControlGroup:
    """Create a group with these limits, as far as there are places for them. Groups of exited hosts are removed first.
    Raises `OSError`."""
    name = f"{_prefix()}{os.getpid()}-{secrets.token_hex(8)}"
    folders: list[Path] = []
    try:
        for place in dict.fromkeys(places.values()):
            _remove_old(place)
            (place / name).mkdir()
            folders.append(place / name)
        for controller, place in places.items():
            _limit(controller, place / name, limits)
    except OSError:
        ControlGroup(tuple(folders)).remove()
        raise
    return ControlGroup(tuple(folders))


def make_group(place: Path, processes: int) -> Path:
    """Create a group that admits `processes` processes and threads."""
    return make_control_group({"pids": place}, GroupLimits(processes=processes)).folders[0]


def remove_group(group: Path) -> bool:
    """Remove a group, and return whether it is gone."""
    return ControlGroup((group,)).remove()


def _limit(controller: str, folder: Path, limits: GroupLimits) -> None:
    is_second = (folder / "cgroup.controllers").exists()
    if controller == "pids":
        _write(folder, "pids.max", limits.processes)
    elif controller == "memory" and limits.memory_bytes is not None:
        _write(folder, "memory.max" if is_second else "memory.limit_in_bytes", limits.memory_bytes)
        with contextlib.suppress(OSError):  # absent where swapping is not counted
            if is_second:
                _write(folder, "memory.swap.max", 0)
            else:
                _write(folder, "memory.memsw.limit_in_bytes", limits.memory_bytes)
    elif controller == "cpu" and limits.processors is not None:
        quota = int(limits.processors * _PERIOD_US)
        if is_second:
            _write(folder, "cpu.max", f"{quota} {_PERIOD_US}")
        else:
            _write(folder, "cpu.cfs_period_us", _PERIOD_US)
            _write(folder, "cpu.cfs_quota_us", quota)


def _write(folder: Path, name: str, value: object) -> None:
    (folder / name).write_text(str(value), encoding="ascii")


def _prefix() -> str:
    """Groups may be shared with hosts in other process namespaces, whose pids say nothing here."""
    return f"{_PREFIX}{os.stat('/proc/self/ns/pid').st_ino}-"


def _remove_old(place: Path) -> None:
    for old in place.glob(f"{_prefix()}*-*"):
        if not Path(f"/proc/{old.name.split('-')[2]}").exists():
            group = ControlGroup((old,))
            group.kill()  # a program without namespaces may outlive its host
            group.remove()


def _find_mount(mounts: list[str], kind: str, option: str, path: str) -> Path | None:
    for line in mounts:
        before, _, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if rest[0] == kind and (not option or option in rest[-1].split(",")):
            root = fields[3].rstrip("/")
            if path == root or path.startswith(f"{root}/"):
                return Path(fields[4] + path.removeprefix(root))
    return None


def _delegated(place: Path) -> list[str]:
    """The controllers that count groups beneath this group of version 2. In a group that systemd gave us (`Delegate=`)
    they are passed on first."""
    control = place / "cgroup.subtree_control"
    try:
        if _is_ours(place) and not set(CONTROLLERS) <= set(control.read_text(encoding="utf-8").split()):
            _empty(place)
            for name in CONTROLLERS:
                with contextlib.suppress(OSError):
                    control.write_text(f"+{name}", encoding="ascii")
        return control.read_text(encoding="utf-8").split()
    except OSError:
        return []


def _is_ours(place: Path) -> bool:
    try:
        return os.getxattr(place, "user.delegate") == b"1"
    except OSError:
        return False


def _empty(place: Path) -> None:
    """Move the processes of a group, which are the host and its helpers, to a group below it: a group with processes
    passes nothing on."""
    below = place / "host"
    below.mkdir(exist_ok=True)
    for pid in (place / "cgroup.procs").read_text(encoding="ascii").split():
        with contextlib.suppress(OSError):  # it has ended
            (below / "cgroup.procs").write_text(pid, encoding="ascii")

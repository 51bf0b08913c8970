"""Control groups of version 1 and 2, which limit processes, memory and processors of a program and everything that it
starts: the only limits that also apply to the superuser."""

import contextlib
import errno
import os
import secrets
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bollard.confine.cgroup_places import is_second, pass_on

_PREFIX: Final = "bollard-"
_PERIOD_US: Final = 100_000
_KILLS: Final = 20

Places = Mapping[str, Path]
"""The groups beneath which we may create groups, for each controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """The limits of one group. `None` is unlimited."""

    processes: int | None = None
    memory_bytes: int | None = None
    processors: float | None = None


UNLIMITED: Final = GroupLimits()


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """One group: a folder for each hierarchy."""

    folders: tuple[Path, ...]
    shared: "SharedGroup | None" = None
    """The group that it is in."""

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
        if any(folder.exists() for folder in self.folders):
            return False
        if self.shared is not None:
            self.shared.release(self)
        return True

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


class SharedGroup:
    """A group whose limits hold for several groups together. It exists while one of them does. For all threads."""

    def __init__(self, limits: GroupLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._members: set[ControlGroup] = set()
        self._outer: ControlGroup | None = None
        self._places: Places = {}
        """The places of its members."""

    def make(self, places: Places, limits: GroupLimits) -> ControlGroup:
        """Create a group in this one. Raises `OSError`."""
        with self._lock:
            if self._outer is None:
                self._open(places)
            try:
                made = replace(_make(self._places, limits), shared=self)
            except OSError:
                self._close_empty()
                raise
            self._members.add(made)
            return made

    def release(self, member: ControlGroup) -> None:
        """A group in this one was removed."""
        with self._lock:
            self._members.discard(member)
            self._close_empty()

    def _open(self, places: Places) -> None:
        outer = make_control_group(places, self._limits)
        below = {controller: place / outer.folders[0].name for controller, place in places.items()}
        try:
            for folder in outer.folders:
                if is_second(folder):
                    pass_on(folder, [controller for controller, place in below.items() if place == folder])
        except OSError:
            outer.remove()
            raise
        self._outer, self._places = outer, below

    def _close_empty(self) -> None:
        if self._outer is not None and not self._members:
            self._outer.remove()
            self._outer = None


def make_control_group(places: Places, limits: GroupLimits) -> ControlGroup:
    """Create a group with these limits, as far as there are places for them. Groups of exited hosts are removed first.
    Raises `OSError`."""
    for place in dict.fromkeys(places.values()):
        _remove_old(place)
    return _make(places, limits)


def _make(places: Places, limits: GroupLimits) -> ControlGroup:
    name = f"{_prefix()}{os.getpid()}-{secrets.token_hex(8)}"
    folders: list[Path] = []
    try:
        for place in dict.fromkeys(places.values()):
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
    second = is_second(folder)
    if controller == "pids" and limits.processes is not None:
        _write(folder, "pids.max", limits.processes)
    elif controller == "memory" and limits.memory_bytes is not None:
        if not second:
            with contextlib.suppress(OSError):  # newer kernels always count groups below
                _write(folder, "memory.use_hierarchy", 1)
        _write(folder, "memory.max" if second else "memory.limit_in_bytes", limits.memory_bytes)
        with contextlib.suppress(OSError):  # absent where swapping is not counted
            if second:
                _write(folder, "memory.swap.max", 0)
            else:
                _write(folder, "memory.memsw.limit_in_bytes", limits.memory_bytes)
    elif controller == "cpu" and limits.processors is not None:
        quota = int(limits.processors * _PERIOD_US)
        if second:
            _write(folder, "cpu.max", f"{quota} {_PERIOD_US}")
        else:
            _write(folder, "cpu.cfs_period_us", _PERIOD_US)
            try:
                _write(folder, "cpu.cfs_quota_us", quota)
            except OSError as error:
                if error.errno != errno.EINVAL:  # a group above has less, which holds for this one, too
                    raise


def _write(folder: Path, name: str, value: object) -> None:
    (folder / name).write_text(str(value), encoding="ascii")


def _prefix() -> str:
    """Groups may be shared with hosts in other process namespaces, whose pids say nothing here."""
    return f"{_PREFIX}{os.stat('/proc/self/ns/pid').st_ino}-"


def _remove_old(place: Path) -> None:
    for old in place.glob(f"{_prefix()}*-*"):
        if not Path(f"/proc/{old.name.split('-')[2]}").exists():
            for folder in (*old.glob(f"{_prefix()}*/"), old):
                group = ControlGroup((folder,))
                group.kill()  # a program without namespaces may outlive its host
                group.remove()

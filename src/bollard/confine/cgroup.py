"""Control groups that limit the processes of a program: the only limit that also applies to the superuser."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

_PREFIX: Final = "bollard-"


def find_pids_group() -> Path | None:
    """Return this process's pids group if we may create groups beneath it."""
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if "pids" in controllers.split(","):
            place = _find_mount(mounts, "cgroup", "pids", path)
        elif not controllers:
            place = _find_mount(mounts, "cgroup2", "", path)
            if place is not None and not _delegates_pids(place):
                place = None
        else:
            continue
        if place is not None and os.access(place, os.W_OK):
            return place
    return None


def make_group(place: Path, processes: int) -> Path:
    """Create a group that admits `processes` processes and threads. Groups of exited hosts are removed first."""
    for old in place.glob(f"{_PREFIX}*-*"):
        if not Path(f"/proc/{old.name.split('-')[1]}").exists():
            remove_group(old)
    group = place / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
    group.mkdir()
    try:
        (group / "pids.max").write_text(str(processes))
    except OSError:
        remove_group(group)
        raise
    return group


def remove_group(group: Path) -> bool:
    """Remove a group, and return whether it is gone. A group with processes stays; a later host removes it."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def _find_mount(mounts: list[str], kind: str, option: str, path: str) -> Path | None:
    for line in mounts:
        before, _, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if rest[0] == kind and (not option or option in rest[-1].split(",")):
            root = fields[3].rstrip("/")
            if path == root or path.startswith(f"{root}/"):
                return Path(fields[4] + path.removeprefix(root))
    return None


def _delegates_pids(place: Path) -> bool:
    """Return whether groups beneath this version 2 group count processes."""
    try:
        return "pids" in (place / "cgroup.subtree_control").read_text(encoding="utf-8").split()
    except OSError:
        return False

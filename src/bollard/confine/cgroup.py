"""How many processes a program may have, as a control group: the one bound that also holds for the superuser."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

__all__ = ["make_group", "pids_place", "remove_group"]

_PREFIX: Final = "bollard-"


def pids_place() -> Path | None:
    """The group of this process that counts processes, where we may make groups beneath it."""
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if "pids" in controllers.split(","):
            place = _mounted(mounts, "cgroup", "pids", path)
        elif not controllers:
            place = _mounted(mounts, "cgroup2", "", path)
            if place is not None and not _hands_down(place):
                place = None
        else:
            continue
        if place is not None and os.access(place, os.W_OK):
            return place
    return None


def make_group(place: Path, processes: int) -> Path:
    """A group with room for so many processes and threads. Those of hosts that are gone go first."""
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
    """Whether it is gone. A group with processes stays, and is looked at again by a later host."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def _mounted(mounts: list[str], kind: str, option: str, path: str) -> Path | None:
    for line in mounts:
        before, _, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if rest[0] == kind and (not option or option in rest[-1].split(",")):
            root = fields[3].rstrip("/")
            if path == root or path.startswith(f"{root}/"):
                return Path(fields[4] + path.removeprefix(root))
    return None


def _hands_down(place: Path) -> bool:
    """Whether groups beneath this one of version 2 count processes."""
    try:
        return "pids" in (place / "cgroup.subtree_control").read_text(encoding="utf-8").split()
    except OSError:
        return False

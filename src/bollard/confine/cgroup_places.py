"""The control groups beneath which this process may create groups: its own, or those that a service manager gave it."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

CONTROLLERS: Final = ("pids", "memory", "cpu")
_SELF: Final = Path("/proc/self")


def find_places(process: Path = _SELF) -> dict[str, Path]:
    """Return where we may create groups, for each controller that we may use."""
    try:
        groups = (process / "cgroup").read_text(encoding="utf-8").splitlines()
        mounts = (process / "mountinfo").read_text(encoding="utf-8").splitlines()
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
    try:
        counted = (place / "cgroup.subtree_control").read_text(encoding="utf-8").split()
        given = (place / "cgroup.controllers").read_text(encoding="utf-8").split()
        wanted = [each for each in CONTROLLERS if each in given and each not in counted]
        if not wanted or not _is_ours(place):
            return counted
        _empty(place)
        pass_on(place, wanted)
    except OSError:
        return []
    return [*counted, *wanted]


def pass_on(place: Path, controllers: Iterable[str]) -> None:
    """Let groups beneath this one of version 2 use controllers. Raises `OSError`."""
    text = " ".join(f"+{each}" for each in controllers)
    (place / "cgroup.subtree_control").write_text(text, encoding="ascii")


def is_second(place: Path) -> bool:
    """Whether a group is of version 2, or will be when it exists."""
    return any((each / "cgroup.controllers").exists() for each in (place, *place.parents))


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

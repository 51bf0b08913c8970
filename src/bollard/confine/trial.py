"""Tries the kernel's confinement in a separate process: `python -m bollard.confine.trial`.

Each mechanism is tried in a child. The child exits with 0 if the confinement held and access outside was refused.
"""

import contextlib
import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable

from bollard.confine.cgroup import GroupLimits, make_control_group, make_group, remove_group
from bollard.confine.cgroup_places import find_pids_group, find_places
from bollard.confine.kernel import enter_namespaces, openat2, separate_namespaces
from bollard.confine.landlock import landlock_version, restrict
from bollard.confine.launch_order import HOME, LaunchOrder
from bollard.confine.seccomp import install, jail_filter
from bollard.confine.view import enter_view


def main() -> None:
    """Print the results as one JSON object."""
    with tempfile.TemporaryDirectory() as folder:
        found = {
            "landlock": landlock_version() if _holds(lambda: _landlock(folder)) else 0,
            "seccomp": _holds(_seccomp),
            "namespaces": _holds(lambda: _namespaces(folder)),
            "openat2": _holds(_openat2),
            "view": _holds(_view),
            "controllers": _controllers(),
            "processes": _processes(),
        }
    sys.stdout.write(json.dumps(found))


def _holds(attempt: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        held = False
        try:
            held = attempt()
        except BaseException:  # noqa: BLE001 - any error means that the confinement did not hold
            held = False
        finally:
            os._exit(0 if held else 1)
    _, status = os.waitpid(child, 0)
    return status == 0


def _landlock(folder: str) -> bool:
    restrict(readable=(), writable=(folder,), devices=())
    with open(os.path.join(folder, "inside"), "w", encoding="utf-8") as file:
        file.write("reached")
    return _is_refused(lambda: os.listdir("/"))


def _seccomp() -> bool:
    install(jail_filter(namespaces=True))
    return _is_refused(lambda: socket.socket(socket.AF_INET))


def _namespaces(folder: str) -> bool:
    enter_namespaces((folder,))
    first = os.fork()  # a process namespace starts with the next child
    if first == 0:
        os._exit(0 if os.getpid() == 1 else 1)
    _, status = os.waitpid(first, 0)
    with open(os.path.join(folder, "beneath"), "w", encoding="utf-8") as file:
        file.write("reached")
    return status == 0 and _is_refused(lambda: os.utime("/"))


def _view() -> bool:
    order = LaunchOrder(
        argv=(),
        cwd="/",
        environment={},
        namespaces=True,
        landlock=False,
        seccomp=False,
        readable=("/usr",),
        writable=(),
        parent=0,
    )
    separate_namespaces()
    first = os.fork()
    if first == 0:
        enter_view(order)
        seen = os.path.isdir("/usr/bin") and not os.path.exists("/etc") and os.listdir(HOME) == [".tmp"]
        os._exit(0 if seen else 1)
    return os.waitpid(first, 0)[1] == 0


def _controllers() -> list[str]:
    """The controllers whose limits can be set."""
    held: list[str] = []
    for name, place in find_places().items():
        with contextlib.suppress(OSError):
            make_control_group({name: place}, GroupLimits(processes=16, memory_bytes=1 << 26, processors=1.0)).remove()
            held.append(name)
    return held


def _openat2() -> bool:
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    os.close(openat2(root, b"proc", os.O_PATH))
    return _is_refused(lambda: os.close(openat2(root, b"proc/self", os.O_PATH)))


def _processes() -> str:
    place = find_pids_group()
    if place is not None:
        try:
            group = make_group(place, 16)
        except OSError:
            pass
        else:
            remove_group(group)
            return "cgroup"
    return "user" if os.geteuid() != 0 else "none"


def _is_refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return True
    return False


if __name__ == "__main__":
    main()

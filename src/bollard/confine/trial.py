"""What this machine's kernel does when it is asked to confine: `python -m bollard.confine.trial`, a process of its own.

Each thing is tried in a child, which ends with 0 when the wall stood and something behind it could not be reached.
"""

import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable

from bollard.confine.cgroup import make_group, pids_place, remove_group
from bollard.confine.kernel import openat2
from bollard.confine.landlock import landlock_version, restrict
from bollard.confine.namespaces import enter
from bollard.confine.seccomp import install, jail_filter

__all__ = ["main"]


def main() -> None:
    """Says what held, as one JSON object."""
    with tempfile.TemporaryDirectory() as folder:
        found = {
            "landlock": landlock_version() if _held(lambda: _landlock(folder)) else 0,
            "seccomp": _held(_seccomp),
            "namespaces": _held(lambda: _namespaces(folder)),
            "openat2": _held(_openat2),
            "processes": _processes(),
        }
    sys.stdout.write(json.dumps(found))


def _held(attempt: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        held = False
        try:
            held = attempt()
        except BaseException:  # noqa: BLE001 - whatever goes wrong, the wall did not stand
            held = False
        finally:
            os._exit(0 if held else 1)
    _, status = os.waitpid(child, 0)
    return status == 0


def _landlock(folder: str) -> bool:
    restrict(readable=(), writable=(folder,), devices=())
    with open(os.path.join(folder, "inside"), "w", encoding="utf-8") as file:
        file.write("reached")
    return _refused(lambda: os.listdir("/"))


def _seccomp() -> bool:
    install(jail_filter(namespaces=True))
    return _refused(lambda: socket.socket(socket.AF_INET))


def _namespaces(folder: str) -> bool:
    enter((folder,))
    first = os.fork()  # a namespace of processes begins with the next child
    if first == 0:
        os._exit(0 if os.getpid() == 1 else 1)
    _, status = os.waitpid(first, 0)
    with open(os.path.join(folder, "beneath"), "w", encoding="utf-8") as file:
        file.write("reached")
    return status == 0 and _refused(lambda: os.utime("/"))


def _openat2() -> bool:
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    os.close(openat2(root, b"proc", os.O_PATH))
    return _refused(lambda: os.close(openat2(root, b"proc/self", os.O_PATH)))


def _processes() -> str:
    place = pids_place()
    if place is not None:
        try:
            group = make_group(place, 16)
        except OSError:
            pass
        else:
            remove_group(group)
            return "cgroup"
    return "user" if os.geteuid() != 0 else "none"


def _refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return True
    return False


if __name__ == "__main__":
    main()

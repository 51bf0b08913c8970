"""Namespaces of a jail: nobody else's processes, no network, and a file system that is written in few places.

An addition to Landlock and the filter of system calls, where the machine has it.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bollard.confine.kernel import mount, mount_setattr, unshare

__all__ = ["enter"]

_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_RDONLY, _NOSUID, _NODEV = 0x1, 0x2, 0x4
_SETTINGS: Final = Path("/proc/self")


def enter(writable: Iterable[str]) -> None:
    """Leave the namespaces of the machine. The next child is the first process of its own."""
    user, group = os.geteuid(), os.getegid()
    unshare(_NEWUSER | _NEWNS | _NEWPID | _NEWNET | _NEWIPC | _NEWUTS)
    (_SETTINGS / "setgroups").write_text("deny")
    (_SETTINGS / "uid_map").write_text(f"{user} {user} 1")
    (_SETTINGS / "gid_map").write_text(f"{group} {group} 1")
    mount(None, "/", _MS_REC | _MS_SLAVE)
    places = tuple(writable)
    for place in places:
        mount(place, place, _MS_BIND)
    mount_setattr("/", add=_RDONLY | _NOSUID, recursive=True)
    for place in places:
        mount_setattr(place, add=_NODEV, clear=_RDONLY)

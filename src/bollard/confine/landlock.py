"""Landlock: restricts the files that a process and its children can reach. The jail applies it to itself."""

import ctypes
import os
import stat
from collections.abc import Collection, Iterable
from typing import Final

from bollard.confine.kernel import open_without_links, prctl, syscall

SCOPED_FROM: Final = 6
"""The first version in which a process cannot signal processes outside."""
_TRUNCATE_FROM: Final = 3
_REFER_FROM: Final = 2
NET_FROM: Final = 4
"""The first version that restricts TCP."""
_IOCTL_FROM: Final = 5

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_FIRST: Final = (1 << 13) - 1
"""All rights of the first version."""
_DEVICES_MADE: Final = 1 << 6 | 1 << 11
"""Creating character and block devices, which is never allowed."""
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_NET_ALL: Final = 0b11
_SCOPE_ALL: Final = 0b11

_VERSION_ASKED: Final = 1
_RULE_BENEATH: Final = 1
_RULE_PORT: Final = 2
_BIND: Final = 1
_CONNECT: Final = 2
_PR_SET_NO_NEW_PRIVS: Final = 38


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Port(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def landlock_version() -> int:
    """Return the version of Landlock, or 0 if it is unavailable."""
    try:
        return syscall("landlock_create_ruleset", None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_ASKED))
    except OSError:
        return 0


def restrict(
    *,
    readable: Iterable[str],
    writable: Iterable[str],
    devices: Iterable[str],
    exact: Collection[str] = (),
    ports: Iterable[int] = (),
    listens: Iterable[int] = (),
    network: bool = False,
) -> None:
    """Restrict this process for good: read and execute `readable`, write in `writable`, read and write `devices`,
    connect to TCP `ports`, listen on TCP `listens` (0: on a free one). With `network` Landlock does not restrict
    it. Paths of `exact` are opened without following a link. Raises `OSError`."""
    version = landlock_version()
    everything = _handled_rights(version)
    size = 8 if version < NET_FROM else 16 if version < SCOPED_FROM else 24
    attributes = _Ruleset(everything, 0 if network else _NET_ALL, _SCOPE_ALL)
    ruleset = syscall("landlock_create_ruleset", ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for path in readable:
            _allow(ruleset, path, everything & (_EXECUTE | _READ_FILE | _READ_DIR), is_exact=path in exact)
        for path in writable:
            _allow(ruleset, path, everything & ~_DEVICES_MADE & ~_IOCTL, is_exact=path in exact)
        for path in devices:
            _allow(ruleset, path, everything & (_READ_FILE | _WRITE_FILE | _TRUNCATE))
        if version >= NET_FROM and not network:
            for port in ports:
                _allow_port(ruleset, port, _CONNECT)
            for port in listens:
                _allow_port(ruleset, port, _BIND)
        prctl(_PR_SET_NO_NEW_PRIVS, 1)
        syscall("landlock_restrict_self", ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _handled_rights(version: int) -> int:
    handled = _FIRST
    for since, right in ((_REFER_FROM, _REFER), (_TRUNCATE_FROM, _TRUNCATE), (_IOCTL_FROM, _IOCTL)):
        if version >= since:
            handled |= right
    return handled


def _allow_port(ruleset: int, port: int, right: int) -> None:
    rule = _Port(right, port)
    syscall(
        "landlock_add_rule", ctypes.c_int(ruleset), ctypes.c_int(_RULE_PORT), ctypes.byref(rule), ctypes.c_uint32(0)
    )


def _allow(ruleset: int, path: str, rights: int, *, is_exact: bool = False) -> None:
    try:
        descriptor = open_without_links("/", path) if is_exact else os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # a missing path needs no rule
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL
        rule = _Beneath(rights, descriptor)
        syscall(
            "landlock_add_rule",
            ctypes.c_int(ruleset),
            ctypes.c_int(_RULE_BENEATH),
            ctypes.byref(rule),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(descriptor)

"""Which system calls a confined program does not get, as a filter for the kernel, made by a pure function.

What is refused answers with an error and kills nothing, so that programs find another way. Calls that are newer than
this list do not exist for the program.
"""

import ctypes
import errno
import struct
from collections.abc import Mapping
from typing import Final

from bollard.confine.kernel import MACHINE, number_of, prctl

__all__ = ["REFUSED", "REFUSED_WITHOUT_NAMESPACES", "filter_of", "install", "jail_filter"]

_ARCHITECTURE: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NEWEST: Final = 451
"""The newest call that this list knows about."""
_X32: Final = 0x40000000
"""The other numbering of x86_64."""
_NAMESPACE_FLAGS: Final = 0x7E020000
_SOCKET_KINDS: Final = 0xF
_STREAM: Final = 1
_SEQPACKET: Final = 5
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C

_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_GREATER: Final = 0x25
_AT_LEAST: Final = 0x35
_ANY_BIT: Final = 0x45
_AND: Final = 0x54
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERROR: Final = 0x00050000

_OFFSET_NUMBER: Final = 0
_OFFSET_ARCHITECTURE: Final = 4
_OFFSET_ARGUMENTS: Final = 16

_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_FILTER_MODE: Final = 2

_EPERM, _EACCES, _ENOSYS = errno.EPERM, errno.EACCES, errno.ENOSYS

REFUSED: Final[Mapping[str, int]] = {
    # the network, and sockets of other programs: a pair of sockets that are bound to each other is still to be had
    "socket": _EACCES,
    # ways around this filter, and around who may see what
    "io_uring_setup": _ENOSYS,
    "io_uring_enter": _ENOSYS,
    "io_uring_register": _ENOSYS,
    "clone3": _ENOSYS,  # its flags cannot be looked at; libraries fall back to clone
    "unshare": _EPERM,
    "setns": _EPERM,
    "ptrace": _EPERM,
    "process_vm_readv": _EPERM,
    "process_vm_writev": _EPERM,
    "process_madvise": _EPERM,
    "process_mrelease": _EPERM,
    "pidfd_getfd": _EPERM,
    "kcmp": _EPERM,
    "name_to_handle_at": _EPERM,
    "open_by_handle_at": _EPERM,
    "userfaultfd": _EPERM,
    "bpf": _EPERM,
    "perf_event_open": _EPERM,
    "fanotify_init": _EPERM,
    # Landlock lets a folder be watched that it does not let be listed: names of other runs' files
    "inotify_init": _ENOSYS,
    "inotify_init1": _ENOSYS,
    "lookup_dcookie": _EPERM,
    # memory and keys that no folder's limit counts and that outlive a program
    "memfd_create": _ENOSYS,
    "memfd_secret": _ENOSYS,
    "shmget": _EPERM,
    "semget": _EPERM,
    "msgget": _EPERM,
    "mq_open": _EPERM,
    "add_key": _EPERM,
    "request_key": _EPERM,
    "keyctl": _EPERM,
    # mounts and devices
    "mount": _EPERM,
    "umount2": _EPERM,
    "pivot_root": _EPERM,
    "chroot": _EPERM,
    "mount_setattr": _EPERM,
    "move_mount": _EPERM,
    "open_tree": _EPERM,
    "fsopen": _EPERM,
    "fsconfig": _EPERM,
    "fsmount": _EPERM,
    "fspick": _EPERM,
    # who is served first
    "setpriority": _EPERM,
    "ioprio_set": _EPERM,
    "sched_setaffinity": _EPERM,
    "sched_setattr": _EPERM,
    "sched_setparam": _EPERM,
    "sched_setscheduler": _EPERM,
    "migrate_pages": _EPERM,
    "move_pages": _EPERM,
    # the machine as a whole
    "_sysctl": _EPERM,
    "acct": _EPERM,
    "adjtimex": _EPERM,
    "clock_adjtime": _EPERM,
    "clock_settime": _EPERM,
    "settimeofday": _EPERM,
    "delete_module": _EPERM,
    "finit_module": _EPERM,
    "init_module": _EPERM,
    "ioperm": _EPERM,
    "iopl": _EPERM,
    "kexec_file_load": _EPERM,
    "kexec_load": _EPERM,
    "nfsservctl": _EPERM,
    "quotactl": _EPERM,
    "quotactl_fd": _EPERM,
    "reboot": _EPERM,
    "setdomainname": _EPERM,
    "sethostname": _EPERM,
    "swapoff": _EPERM,
    "swapon": _EPERM,
    "syslog": _EPERM,
    "uselib": _EPERM,
    "vhangup": _EPERM,
}

REFUSED_WITHOUT_NAMESPACES: Final[Mapping[str, int]] = {
    # Landlock says nothing about owners, modes, times and attributes of files that it hides
    **dict.fromkeys(("chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat"), _EPERM),
    **dict.fromkeys(("utime", "utimes", "utimensat", "futimesat"), _EPERM),
    **dict.fromkeys(("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"), _EPERM),
    # nobody leaves the process group that is killed
    "setsid": _EPERM,
    "setpgid": _EPERM,
}


def jail_filter(*, namespaces: bool) -> bytes:
    """The filter of a jail, with or without namespaces of its own."""
    return filter_of(REFUSED if namespaces else {**REFUSED, **REFUSED_WITHOUT_NAMESPACES}, guard_arguments=True)


def filter_of(refused: Mapping[str, int], *, guard_arguments: bool = False) -> bytes:
    """A program for the kernel that answers these calls with these errors and lets others pass. Pure."""
    lines = [
        _line(_LOAD, _OFFSET_ARCHITECTURE),
        _line(_EQUAL, _ARCHITECTURE[MACHINE], yes=1),
        _line(_RETURN, _KILL),  # another architecture numbers its calls otherwise
        _line(_LOAD, _OFFSET_NUMBER),
    ]
    if guard_arguments:
        lines += [_line(_AT_LEAST, _X32, no=1), _line(_RETURN, _KILL)]
        lines += [_line(_GREATER, _NEWEST, no=1), _line(_RETURN, _ERROR | _ENOSYS)]
    for name, error in refused.items():
        number = number_of(name)
        if number is not None:
            lines += [_line(_EQUAL, number, no=1), _line(_RETURN, _ERROR | error)]
    if guard_arguments:
        lines += _when("clone", 0, [_line(_ANY_BIT, _NAMESPACE_FLAGS, no=1), _line(_RETURN, _ERROR | _EPERM)])
        lines += _when(
            "ioctl",  # typing into somebody's terminal
            1,
            [_line(_EQUAL, _TIOCSTI, yes=1), _line(_EQUAL, _TIOCLINUX, no=1), _line(_RETURN, _ERROR | _EPERM)],
        )
        lines += _when(
            "socketpair",  # an end of a pair of datagram sockets sends to whatever address it names
            1,
            [
                _line(_AND, _SOCKET_KINDS),
                _line(_EQUAL, _STREAM, yes=2),
                _line(_EQUAL, _SEQPACKET, yes=1),
                _line(_RETURN, _ERROR | _EACCES),
            ],
        )
        lines += _when("prlimit64", 0, [_line(_EQUAL, 0, yes=1), _line(_RETURN, _ERROR | _EPERM)])
    lines.append(_line(_RETURN, _ALLOW))
    return b"".join(lines)


def install(program: bytes) -> None:
    """Put this filter around the process for good, and around whatever it starts."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    kept = ctypes.create_string_buffer(program, len(program))
    told = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(kept))
    header = ctypes.create_string_buffer(told, len(told))
    prctl(_PR_SET_SECCOMP, _FILTER_MODE, ctypes.addressof(header))


def _when(name: str, argument: int, rule: list[bytes]) -> list[bytes]:
    """A rule about the low half of one argument of one call. After it the call is let through."""
    number = number_of(name)
    if number is None:
        return []  # what the machine has not, nobody calls
    body = [_line(_LOAD, _OFFSET_ARGUMENTS + 8 * argument), *rule, _line(_RETURN, _ALLOW)]
    return [_line(_EQUAL, number, no=len(body)), *body]


def _line(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)

"""The seccomp filter of a confined program, built by a pure function.

A refused system call returns an error instead of killing the program, so that it can fall back. Calls that are newer
than this list return ENOSYS.
"""

import ctypes
import errno
import struct
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from bollard.confine.kernel import MACHINE, number_of, prctl

_ARCHITECTURE: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NEWEST: Final = 451
"""The newest system call in this list."""
_X32: Final = 0x40000000
"""The x32 numbering of x86_64."""
_NAMESPACE_FLAGS: Final = 0x7E020000
_SOCKET_KINDS: Final = 0xF
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_IPPROTO_TCP: Final = 6
_STREAM: Final = 1
_SEQPACKET: Final = 5
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_FS_IOC_SETFLAGS: Final = 0x40086602
_FS_IOC_FSSETXATTR: Final = 0x401C5820
_FLAGS: Final = (_FS_IOC_SETFLAGS, _FS_IOC_FSSETXATTR)
_MSG_FASTOPEN: Final = 0x20000000

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
    # the network and sockets of other programs; a connected socket pair stays available
    "socket": _EACCES,
    # ways around this filter and around process isolation
    **dict.fromkeys(("io_uring_setup", "io_uring_enter", "io_uring_register"), _ENOSYS),
    "clone3": _ENOSYS,  # the filter cannot read its flags; libraries fall back to clone
    **dict.fromkeys(("unshare", "setns", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise"), _EPERM),
    **dict.fromkeys(("process_mrelease", "pidfd_getfd", "kcmp", "name_to_handle_at", "open_by_handle_at"), _EPERM),
    **dict.fromkeys(("userfaultfd", "bpf", "perf_event_open", "fanotify_init"), _EPERM),
    # Landlock does not restrict watching a folder, which reveals the file names of other runs
    **dict.fromkeys(("inotify_init", "inotify_init1"), _ENOSYS),
    "lookup_dcookie": _EPERM,
    # memory and keys that no folder limit counts and that outlive a program
    **dict.fromkeys(("memfd_create", "memfd_secret"), _ENOSYS),
    **dict.fromkeys(("shmget", "semget", "msgget", "mq_open", "add_key", "request_key", "keyctl"), _EPERM),
    # mounts and devices
    **dict.fromkeys(("mount", "umount2", "pivot_root", "chroot", "mount_setattr", "move_mount", "open_tree"), _EPERM),
    **dict.fromkeys(("fsopen", "fsconfig", "fsmount", "fspick"), _EPERM),
    # scheduling
    **dict.fromkeys(("setpriority", "ioprio_set", "sched_setaffinity", "sched_setattr", "sched_setparam"), _EPERM),
    **dict.fromkeys(("sched_setscheduler", "migrate_pages", "move_pages"), _EPERM),
    # the machine as a whole
    **dict.fromkeys(("_sysctl", "acct", "adjtimex", "clock_adjtime", "clock_settime", "settimeofday"), _EPERM),
    **dict.fromkeys(("delete_module", "finit_module", "init_module", "ioperm", "iopl", "kexec_file_load"), _EPERM),
    **dict.fromkeys(("kexec_load", "nfsservctl", "quotactl", "quotactl_fd", "reboot", "setdomainname"), _EPERM),
    **dict.fromkeys(("sethostname", "swapoff", "swapon", "syslog", "uselib", "vhangup"), _EPERM),
}

REFUSED_WITHOUT_NAMESPACES: Final[Mapping[str, int]] = {
    # Landlock does not protect the owners, modes, times and attributes of hidden files
    **dict.fromkeys(("chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat"), _EPERM),
    **dict.fromkeys(("utime", "utimes", "utimensat", "futimesat"), _EPERM),
    **dict.fromkeys(("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"), _EPERM),
    # no process may leave the process group that is killed
    "setsid": _EPERM,
    "setpgid": _EPERM,
}


def jail_filter(*, namespaces: bool) -> bytes:
    """Return the filter of a jail with or without namespaces."""
    return build_filter(
        REFUSED if namespaces else {**REFUSED, **REFUSED_WITHOUT_NAMESPACES}, guard_arguments=True, flags=namespaces
    )


Sockets = Literal["none", "loopback", "internet", "own"]
"""The sockets of a launched program: pairs alone; TCP, whose ports Landlock restricts; those of the internet protocols;
or also Unix sockets."""


def launch_filter(*, namespaces: bool, sockets: Sockets, may_leave_session: bool, may_listen: bool = False) -> bytes:
    """Return the filter of a launched program. Unlike a jail, it may have sockets, processes of its own group, and
    memory files, which a control group counts. Pure."""
    refused = dict(REFUSED if namespaces else {**REFUSED, **REFUSED_WITHOUT_NAMESPACES})
    del refused["memfd_create"]
    if namespaces:  # no folder of others can be seen
        del refused["inotify_init"], refused["inotify_init1"]
    elif may_leave_session:
        del refused["setsid"], refused["setpgid"]
    if sockets != "none":
        del refused["socket"]
    if sockets == "loopback" and not may_listen:
        refused["listen"] = _EACCES  # Landlock does not see a listener without an address
    return build_filter(refused, guard_arguments=True, sockets=sockets, flags=namespaces)


def build_filter(
    refused: Mapping[str, int], *, guard_arguments: bool = False, sockets: Sockets = "none", flags: bool = True
) -> bytes:
    """Build a filter that refuses these calls with these errors and allows all others. `flags` allows a program to
    change the flags of files that it may only read. Pure."""
    lines = [
        _instruction(_LOAD, _OFFSET_ARCHITECTURE),
        _instruction(_EQUAL, _ARCHITECTURE[MACHINE], yes=1),
        _instruction(_RETURN, _KILL),  # another architecture has other call numbers
        _instruction(_LOAD, _OFFSET_NUMBER),
    ]
    if guard_arguments:
        lines += [_instruction(_AT_LEAST, _X32, no=1), _instruction(_RETURN, _KILL)]
        lines += [_instruction(_GREATER, _NEWEST, no=1), _instruction(_RETURN, _ERROR | _ENOSYS)]
    for name, error in refused.items():
        number = number_of(name)
        if number is not None:
            lines += [_instruction(_EQUAL, number, no=1), _instruction(_RETURN, _ERROR | error)]
    if guard_arguments:
        lines += _argument_rule(
            "clone", 0, [_instruction(_ANY_BIT, _NAMESPACE_FLAGS, no=1), _instruction(_RETURN, _ERROR | _EPERM)]
        )
        controls = [_TIOCSTI, _TIOCLINUX]  # would type into the terminal of another process
        lines += _argument_rule("ioctl", 1, _refuse_values([*controls, *([] if flags else _FLAGS)], _EPERM))
        lines += _argument_rule(
            "socketpair",  # a datagram socket can send to any address
            1,
            [
                _instruction(_AND, _SOCKET_KINDS),
                _instruction(_EQUAL, _STREAM, yes=2),
                _instruction(_EQUAL, _SEQPACKET, yes=1),
                _instruction(_RETURN, _ERROR | _EACCES),
            ],
        )
        lines += _argument_rule(
            "prlimit64", 0, [_instruction(_EQUAL, 0, yes=1), _instruction(_RETURN, _ERROR | _EPERM)]
        )
    if sockets != "none":
        lines += _socket_rules(sockets)
    if sockets == "loopback":  # data in the first packet connects without a check by Landlock
        for name, argument in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
            lines += _argument_rule(
                name, argument, [_instruction(_ANY_BIT, _MSG_FASTOPEN, no=1), _instruction(_RETURN, _ERROR | _EACCES)]
            )
    lines.append(_instruction(_RETURN, _ALLOW))
    return b"".join(lines)


def _socket_rules(sockets: Sockets) -> list[bytes]:
    """Refuse families that reach other programs or the kernel. For `loopback` only TCP is left: nothing else can be
    restricted to one port. The low half of the type has flags above the kind."""
    families = (_AF_UNIX, _AF_INET, _AF_INET6) if sockets == "own" else (_AF_INET, _AF_INET6)
    number = number_of("socket")
    if number is None:
        return []
    refuse = _instruction(_RETURN, _ERROR | _EACCES)
    checks = [_instruction(_EQUAL, family, yes=len(families) - index) for index, family in enumerate(families)]
    body = [_instruction(_LOAD, _OFFSET_ARGUMENTS), *checks, refuse]
    if sockets == "loopback":
        body += [
            _instruction(_LOAD, _OFFSET_ARGUMENTS + 8),
            _instruction(_AND, _SOCKET_KINDS),
            _instruction(_EQUAL, _STREAM, yes=1),
            refuse,
            _instruction(_LOAD, _OFFSET_ARGUMENTS + 16),
            _instruction(_EQUAL, 0, yes=2),
            _instruction(_EQUAL, _IPPROTO_TCP, yes=1),
            refuse,  # such as MPTCP, to which Landlock is blind
        ]
    body.append(_instruction(_RETURN, _ALLOW))
    return [_instruction(_EQUAL, number, no=len(body)), *body]


def install(program: bytes) -> None:
    """Apply the filter to this process and its children for good."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    buffer = ctypes.create_string_buffer(program, len(program))
    fields = struct.pack("@HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    header = ctypes.create_string_buffer(fields, len(fields))
    prctl(_PR_SET_SECCOMP, _FILTER_MODE, ctypes.addressof(header))


def _argument_rule(name: str, argument: int, rule: list[bytes]) -> list[bytes]:
    """Return a rule on the low half of one argument of a call. The call is allowed after it."""
    number = number_of(name)
    if number is None:
        return []  # this machine does not have the call
    body = [_instruction(_LOAD, _OFFSET_ARGUMENTS + 8 * argument), *rule, _instruction(_RETURN, _ALLOW)]
    return [_instruction(_EQUAL, number, no=len(body)), *body]


def _refuse_values(values: Sequence[int], error: int) -> list[bytes]:
    """Refuse these values of an argument."""
    checks = [
        _instruction(_EQUAL, value, yes=len(values) - 1 - index, no=int(index == len(values) - 1))
        for index, value in enumerate(values)
    ]
    return [*checks, _instruction(_RETURN, _ERROR | error)]


def _instruction(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)

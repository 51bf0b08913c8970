"""System calls that Python does not offer, through ctypes, and the namespaces of a jail. Raises `OSError`."""

import ctypes
import os
import sys
from collections.abc import Iterable
from typing import Final

MACHINE: Final = os.uname().machine
_COLUMN: Final = {"x86_64": 0, "aarch64": 1}.get(MACHINE)

SYSCALLS: Final[dict[str, tuple[int | None, int | None]]] = {
    "_sysctl": (156, None),
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chmod": (90, None),
    "chown": (92, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "finit_module": (313, 273),
    "fremovexattr": (199, 16),
    "fsconfig": (431, 431),
    "fsetxattr": (190, 7),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "futimesat": (261, None),
    "init_module": (175, 105),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "lchown": (94, None),
    "listen": (50, 201),
    "lookup_dcookie": (212, 18),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "removexattr": (197, 14),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semget": (64, 190),
    "sendmmsg": (307, 269),
    "sendmsg": (46, 211),
    "sendto": (44, 206),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpgid": (109, 154),
    "setpriority": (141, 140),
    "setsid": (112, 157),
    "settimeofday": (164, 170),
    "setxattr": (188, 5),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "utime": (132, None),
    "utimensat": (280, 88),
    "utimes": (235, None),
    "vhangup": (153, 58),
}
"""The number of each system call that we use or refuse, on x86_64 and on aarch64."""

OPEN_HOW_NO_ESCAPE: Final = 0x08 | 0x04 | 0x02
"""RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS."""
_CAPABILITY_VERSION_3: Final = 0x20080522
_PR_SET_DUMPABLE: Final = 4
_PR_CAPBSET_DROP: Final = 24
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_CAPABILITIES: Final = 64
_AT_RECURSIVE: Final = 0x8000
_AT_EMPTY_PATH: Final = 0x1000
_AT_FDCWD: Final = -100
_TREE_CLONE: Final = 0x1
_FROM_EMPTY_PATH, _TO_EMPTY_PATH = 0x04, 0x40
_MNT_DETACH: Final = 2

_libc: Final = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def number_of(name: str) -> int | None:
    """Return the number of a call on this machine; `None` if the call or the machine is unknown."""
    return None if _COLUMN is None else SYSCALLS[name][_COLUMN]


def syscall(name: str, *arguments: object) -> int:
    number = number_of(name)
    if number is None:
        raise OSError(38, f"{name} is not known on {MACHINE}")
    return _check_result(_libc.syscall(ctypes.c_long(number), *arguments), name)


def openat2(directory: int, path: bytes, flags: int, mode: int = 0) -> int:
    """Open a path beneath a folder's descriptor without following any link."""
    how = _OpenHow(flags | os.O_CLOEXEC, mode, OPEN_HOW_NO_ESCAPE)
    return syscall(
        "openat2",
        ctypes.c_int(directory),
        ctypes.c_char_p(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )


def open_without_links(root: str, path: str) -> int:
    """Open a path below `root`, for reference only. Raises `OSError` if a part of it is a link."""
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return openat2(folder, os.fsencode(path).lstrip(b"/") or b".", os.O_PATH)
    except OSError as error:
        raise OSError(error.errno, f"{path}: {os.strerror(error.errno or 0)}") from error
    finally:
        os.close(folder)


def prctl(option: int, *arguments: int) -> int:
    padded = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    return _check_result(_libc.prctl(ctypes.c_int(option), *padded), "prctl")


def deny_inspection() -> None:
    """Deny other processes of this user the memory, the environment and the descriptors of this process. A program that
    it executes does not inherit this."""
    if sys.platform == "linux":
        prctl(_PR_SET_DUMPABLE, 0)


def unshare(flags: int) -> None:
    _check_result(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str | None, target: str, flags: int, *, kind: str | None = None, data: str | None = None) -> None:
    texts = (None if text is None else os.fsencode(text) for text in (source, target, kind))
    result = _libc.mount(*texts, ctypes.c_ulong(flags), None if data is None else os.fsencode(data))
    _check_result(result, f"mount {target}")


def unmount(target: str) -> None:
    """Take a mount out of this namespace; open files keep it."""
    _check_result(_libc.umount2(os.fsencode(target), ctypes.c_int(_MNT_DETACH)), f"umount {target}")


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root of this namespace, and mount the present one at `old`."""
    syscall("pivot_root", ctypes.c_char_p(os.fsencode(new)), ctypes.c_char_p(os.fsencode(old)))


def clone_tree(descriptor: int) -> int:
    """Return a mount of an open file or folder and everything beneath it, which is at no place yet."""
    flags = _TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | _AT_RECURSIVE
    return syscall("open_tree", ctypes.c_int(descriptor), ctypes.c_char_p(b""), ctypes.c_uint(flags))


def attach_tree(tree: int, target: int) -> None:
    """Mount what `clone_tree` returned over an open file or folder."""
    empty, flags = ctypes.c_char_p(b""), ctypes.c_uint(_FROM_EMPTY_PATH | _TO_EMPTY_PATH)
    syscall("move_mount", ctypes.c_int(tree), empty, ctypes.c_int(target), empty, flags)


def mount_setattr(place: str | int, *, add: int = 0, clear: int = 0, recursive: bool = False) -> None:
    """Change the attributes of a mount, by its absolute path or its descriptor."""
    wanted = _MountAttributes(add, clear, 0, 0)
    descriptor, path, flags = (
        (place, b"", _AT_EMPTY_PATH) if isinstance(place, int) else (_AT_FDCWD, os.fsencode(place), 0)
    )
    syscall(
        "mount_setattr",
        ctypes.c_int(descriptor),
        ctypes.c_char_p(path),
        ctypes.c_uint(flags | (_AT_RECURSIVE if recursive else 0)),
        ctypes.byref(wanted),
        ctypes.c_size_t(ctypes.sizeof(wanted)),
    )


def clear_capabilities() -> None:
    """Drop every capability, also for the superuser and for programs that are executed later."""
    for capability in range(_CAPABILITIES):
        try:
            prctl(_PR_CAPBSET_DROP, capability)
        except OSError:
            break  # beyond the last capability, or not permitted: then there is nothing to drop
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    syscall("capset", header, nothing)


def _check_result(result: int, name: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_RDONLY, _NOSUID, _NODEV = 0x1, 0x2, 0x4
_SETTINGS: Final = (("setgroups", "deny"), ("uid_map", "{0} {0} 1"), ("gid_map", "{1} {1} 1"))
"""Files of `/proc/self` and their text, by user and group."""


def enter_namespaces(writable: Iterable[str]) -> None:
    """Enter new namespaces: no foreign processes, no network, and a file system that is writable in `writable` only.

    The next child is the first process of the new process namespace.
    """
    separate_namespaces()
    mount(None, "/", _MS_REC | _MS_SLAVE)
    places = tuple(writable)
    for place in places:
        mount(place, place, _MS_BIND)
    mount_setattr("/", add=_RDONLY | _NOSUID, recursive=True)
    for place in places:
        mount_setattr(place, add=_NODEV, clear=_RDONLY)


def separate_namespaces() -> None:
    """Enter new namespaces for users, mounts, processes, IPC, names and the network, as the same user."""
    user, group = os.geteuid(), os.getegid()
    unshare(_NEWUSER | _NEWNS | _NEWPID | _NEWIPC | _NEWUTS | _NEWNET)
    for name, text in _SETTINGS:
        with open(f"/proc/self/{name}", "w", encoding="utf-8") as file:  # a codec that is loaded already
            file.write(text.format(user, group))

"""Tries to read the processes whose ids are the arguments, and prints what was reached of each as JSON."""

import ctypes
import json
import os
import sys
from collections.abc import Callable

_PTRACE_ATTACH, _PTRACE_DETACH, _PIDFD_GETFD = 16, 17, 438
_libc = ctypes.CDLL(None, use_errno=True)


def environment(pid: int) -> bool:
    with open(f"/proc/{pid}/environ", "rb") as file:
        return bool(file.read())


def memory(pid: int) -> bool:
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb", 0) as file:
        file.seek(int(maps.readline().partition("-")[0], 16))
        return bool(file.read(16))


def addresses(pid: int) -> bool:
    with open(f"/proc/{pid}/maps", "rb") as file:
        return bool(file.read())


def descriptors(pid: int) -> bool:
    return bool([os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")])


def stolen_descriptor(pid: int) -> bool:
    return _libc.syscall(_PIDFD_GETFD, os.pidfd_open(pid), 0, 0) >= 0


def trace(pid: int) -> bool:
    if _libc.ptrace(_PTRACE_ATTACH, pid, None, None):
        return False
    os.waitpid(pid, 0)
    _libc.ptrace(_PTRACE_DETACH, pid, None, None)
    return True


def copied_memory(pid: int) -> bool:
    target = (ctypes.c_char * 16)()
    ours = (ctypes.c_void_p * 2)(ctypes.addressof(target), 16)
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
        theirs = (ctypes.c_void_p * 2)(int(maps.readline().partition("-")[0], 16), 16)
    return _libc.process_vm_readv(pid, ours, 1, theirs, 1, 0) == 16


ATTEMPTS = (environment, memory, addresses, descriptors, stolen_descriptor, trace, copied_memory)


def reached(attempt: Callable[[int], bool], pid: int) -> bool:
    try:
        return attempt(pid)
    except OSError:
        return False


found = {pid: sorted(attempt.__name__ for attempt in ATTEMPTS if reached(attempt, int(pid))) for pid in sys.argv[1:]}
sys.stdout.write(json.dumps(found))

"""Probes on the kernel: mounts, keys, shared memory, the clock and the machine as a whole."""

import ctypes
import fcntl
import os
import socket
import termios
import time

from tests.confine.hostile.attack import Targets, attempt, call, scratch

_BAD_MODULE = ctypes.c_char_p(b"not a module")
_ADJ_FREQUENCY = 2
_ENOEXEC, _EBADF, _ENOENT, _EAGAIN, _EBUSY, _EINVAL = 8, 9, 2, 11, 16, 22


def gets_past(name: str, *arguments: object, errors: tuple[int, ...] = ()) -> bool:
    """Whether the kernel works on the call. These errors come after the check of rights."""
    try:
        call(name, *arguments)
    except OSError as error:
        if error.errno in errors:
            return True
        raise
    return True


def _folder() -> ctypes.c_char_p:
    path = scratch("mount")
    os.mkdir(path)
    return ctypes.c_char_p(path.encode())


@attempt
def mount(_: Targets) -> bool:
    folder = _folder()
    call("mount", ctypes.c_char_p(b"x"), folder, ctypes.c_char_p(b"tmpfs"), 0, None)
    return call("umount2", folder, 2) == 0


@attempt
def mount_again(t: Targets) -> bool:
    """Shows a folder of the host at a writable place."""
    folder = _folder()
    call("mount", ctypes.c_char_p(t["data"].encode()), folder, None, 0x1000, None)
    return call("umount2", folder, 2) == 0


@attempt
def mount_writable(t: Targets) -> bool:
    """Makes the plugin's folder writable."""
    plugin = ctypes.c_char_p(t["plugin"].encode())
    attributes = (ctypes.c_uint64 * 4)(0, 1, 0, 0)
    return call("mount_setattr", -100, plugin, 0, ctypes.byref(attributes), 32) == 0


@attempt
def unmount(_: Targets) -> bool:
    """What a mount hides would come to light."""
    return gets_past("umount2", ctypes.c_char_p(b"/dev/shm"), 4, errors=(_EAGAIN, _EBUSY))  # 4: marks it only


@attempt
def mount_by_new_calls(_: Targets) -> bool:
    return call("fsopen", ctypes.c_char_p(b"tmpfs"), 0) >= 0


@attempt
def tree_of_mounts(_: Targets) -> bool:
    return call("open_tree", -100, ctypes.c_char_p(b"/"), 1) >= 0


@attempt
def other_root(_: Targets) -> bool:
    return call("chroot", ctypes.c_char_p(b"/")) == 0


@attempt
def swap_root(_: Targets) -> bool:
    path = ctypes.c_char_p(b"/")
    return gets_past("pivot_root", path, path, errors=(_EINVAL, _EBUSY))


@attempt
def io_uring(_: Targets) -> bool:
    parameters = ctypes.create_string_buffer(256)
    return call("io_uring_setup", 1, parameters) >= 0


@attempt
def user_faults(_: Targets) -> bool:
    return call("userfaultfd", 1) >= 0


@attempt
def bpf(_: Targets) -> bool:
    attributes = (ctypes.c_uint32 * 32)(2, 4, 8, 1)  # an array
    return call("bpf", 0, ctypes.byref(attributes), 72) >= 0


@attempt
def performance_events(_: Targets) -> bool:
    attributes = (ctypes.c_uint64 * 16)()
    ctypes.cast(attributes, ctypes.POINTER(ctypes.c_uint32))[0] = 1  # a software event
    ctypes.cast(attributes, ctypes.POINTER(ctypes.c_uint32))[1] = 128
    return call("perf_event_open", ctypes.byref(attributes), 0, -1, -1, 0) >= 0


@attempt
def add_key(_: Targets) -> bool:
    return call("add_key", ctypes.c_char_p(b"user"), ctypes.c_char_p(b"hostile"), ctypes.c_char_p(b"x"), 1, -3) > 0


@attempt
def read_keys(_: Targets) -> bool:
    return call("keyctl", 0, -4, 0) > 0  # the number of the keyring of the user


@attempt
def shared_segment(t: Targets) -> bool:
    return call("shmget", t["segment_key"], 0, 0) >= 0


@attempt
def new_segment(_: Targets) -> bool:
    made = call("shmget", 0, 4096, 0o1600)
    return ctypes.CDLL(None).shmctl(made, 0, None) == 0


@attempt
def semaphores(_: Targets) -> bool:
    made = call("semget", 0, 1, 0o1600)
    return ctypes.CDLL(None).semctl(made, 0, 0) == 0


@attempt
def messages(_: Targets) -> bool:
    made = call("msgget", 0, 0o1600)
    return ctypes.CDLL(None).msgctl(made, 0, None) == 0


@attempt
def message_queue(_: Targets) -> bool:
    name = b"bollard-hostile"
    call("mq_open", ctypes.c_char_p(name), os.O_CREAT | os.O_RDWR, 0o600, None)
    return ctypes.CDLL(None).mq_unlink(b"/" + name) == 0


@attempt
def secret_memory(_: Targets) -> bool:
    return call("memfd_secret", 0) >= 0


@attempt
def set_clock(_: Targets) -> bool:
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME))
    return True


@attempt
def adjust_clock(_: Targets) -> bool:
    """Sets the frequency that is in effect already."""
    buffer = ctypes.create_string_buffer(208)
    call("adjtimex", buffer)
    ctypes.cast(buffer, ctypes.POINTER(ctypes.c_uint32))[0] = _ADJ_FREQUENCY
    return call("adjtimex", buffer) >= 0


@attempt
def host_name(_: Targets) -> bool:
    socket.sethostname(socket.gethostname())
    return True


@attempt
def domain_name(_: Targets) -> bool:
    return call("setdomainname", ctypes.c_char_p(b"(none)"), 6) == 0


@attempt
def restart_machine(_: Targets) -> bool:
    return call("reboot", 0xFEE1DEAD, 672274793, 0, None) == 0  # only disables the keys for it


@attempt
def swap(_: Targets) -> bool:
    return gets_past("swapon", ctypes.c_char_p(b"/nonexistent"), 0, errors=(_ENOENT,))


@attempt
def no_swap(_: Targets) -> bool:
    return gets_past("swapoff", ctypes.c_char_p(b"/nonexistent"), errors=(_ENOENT,))


@attempt
def load_module(_: Targets) -> bool:
    return gets_past("init_module", _BAD_MODULE, 12, ctypes.c_char_p(b""), errors=(_ENOEXEC,))


@attempt
def load_module_file(_: Targets) -> bool:
    return gets_past("finit_module", -1, ctypes.c_char_p(b""), 0, errors=(_EBADF,))


@attempt
def remove_module(_: Targets) -> bool:
    return gets_past("delete_module", ctypes.c_char_p(b"nonexistent"), os.O_NONBLOCK, errors=(_ENOENT,))


@attempt
def other_kernel(_: Targets) -> bool:
    return gets_past("kexec_load", 0, 0, None, 0, errors=())


@attempt
def accounting(_: Targets) -> bool:
    return call("acct", None) == 0


@attempt
def ports_of_machine(_: Targets) -> bool:
    return call("ioperm", 0x80, 1, 1) == 0


@attempt
def messages_of_kernel(_: Targets) -> bool:
    buffer = ctypes.create_string_buffer(4096)
    return call("syslog", 3, buffer, 4096) >= 0


@attempt
def type_into_terminal(_: Targets) -> bool:
    fcntl.ioctl(0, termios.TIOCSTI, b"x")
    return True


@attempt
def load_of_machine(_: Targets) -> bool:
    return ctypes.CDLL(None).sysinfo(ctypes.create_string_buffer(256)) == 0

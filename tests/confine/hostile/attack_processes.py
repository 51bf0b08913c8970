"""Probes on other processes, on the confinement itself, and on the limits of the program."""

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.confine.hostile.attack import Targets, attempt, call

CANARY = "canary"
_SO_PEERPIDFD = 77
_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17
_PR_GET_NO_NEW_PRIVS = 39
_NEWUSER, _NEWNS = 0x10000000, 0x20000
_SIGCHLD = 17
_UNLIMITED = (1 << 64) - 1
_libc = ctypes.CDLL(None, use_errno=True)


class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _copy(name: str, t: Targets) -> bytes:
    buffer = ctypes.create_string_buffer(b"stolen", 6)
    ours, theirs = Vector(ctypes.addressof(buffer), 6), Vector(t["victim_address"], 6)
    call(name, t["victim"], ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
    return buffer.raw


@attempt
def list_processes(t: Targets) -> bool:
    return str(t["victim"]) in os.listdir("/proc")


@attempt
def process_exists(t: Targets) -> bool:
    os.sched_getscheduler(t["victim"])
    return True


@attempt
def environment_of_process(t: Targets) -> bool:
    return CANARY.encode() in Path(f"/proc/{t['victim']}/environ").read_bytes()


@attempt
def memory_of_process(t: Targets) -> bool:
    with open(f"/proc/{t['victim']}/mem", "rb", buffering=0) as memory:
        memory.seek(t["victim_address"])
        return memory.read(6) == CANARY.encode()


@attempt
def files_of_process(t: Targets) -> bool:
    return Path(f"/proc/{t['victim']}/fd/{t['victim_descriptor']}").read_text(encoding="utf-8").startswith(CANARY)


@attempt
def root_of_sibling(t: Targets) -> bool:
    return bool(os.listdir(f"/proc/{t['sibling']}/root"))


@attempt
def parent_memory(t: Targets) -> bool:
    """The process that waits for the program in its namespace is less confined: control of it would be an escape."""
    if t["victim_visible"]:
        return False  # process 1 is that of the machine
    with open("/proc/1/mem", "r+b", buffering=0):
        return True


@attempt
def trace_process(t: Targets) -> bool:
    call("ptrace", _PTRACE_ATTACH, t["victim"], 0, 0)
    os.waitpid(t["victim"], 0)
    call("ptrace", _PTRACE_DETACH, t["victim"], 0, 0)
    return True


@attempt
def read_process(t: Targets) -> bool:
    return _copy("process_vm_readv", t) == CANARY.encode()


@attempt
def write_process(t: Targets) -> bool:
    _copy("process_vm_writev", {**t, "victim_address": t["victim_scratch"]})
    return True


@attempt
def steal_descriptor(t: Targets) -> bool:
    stolen = call("pidfd_getfd", call("pidfd_open", t["victim"], 0), t["victim_descriptor"], 0)
    return os.pread(stolen, 100, 0).startswith(CANARY.encode())


@attempt
def compare_processes(t: Targets) -> bool:
    return call("kcmp", os.getpid(), t["victim"], 0, 0, 0) >= 0


@attempt
def advise_process(t: Targets) -> bool:
    address = t["victim_scratch"] & ~4095
    return (
        call("process_madvise", call("pidfd_open", t["victim"], 0), ctypes.byref(Vector(address, 4096)), 1, 20, 0) >= 0
    )


@attempt
def signal_host(t: Targets) -> bool:
    os.kill(t["victim"], signal.SIGURG)
    return True


@attempt
def signal_group(t: Targets) -> bool:
    os.killpg(t["victim_group"], signal.SIGURG)
    return True


@attempt
def signal_thread(t: Targets) -> bool:
    return call("tgkill", t["victim"], t["victim"], signal.SIGURG) == 0


@attempt
def signal_sibling(t: Targets) -> bool:
    os.kill(t["sibling"], signal.SIGURG)
    return True


@attempt
def signal_by_handle(t: Targets) -> bool:
    return call("pidfd_send_signal", call("pidfd_open", t["victim"], 0), signal.SIGURG, None, 0) == 0


@attempt
def signal_by_channel(t: Targets) -> bool:
    """The connection to the host gives a handle of the host's process."""
    with socket.socket(fileno=int(os.environ["CHANNEL"])) as channel:
        handle = channel.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    return call("pidfd_send_signal", handle, signal.SIGURG, None, 0) == 0


@attempt
def signal_by_input(t: Targets) -> bool:
    """The kernel signals the owner of a descriptor when it becomes readable. The victim notes whether it does."""
    one, other = socket.socketpair()
    fcntl.fcntl(one, fcntl.F_SETOWN, t["victim"])
    fcntl.fcntl(one, fcntl.F_SETFL, fcntl.fcntl(one, fcntl.F_GETFL) | os.O_ASYNC)
    other.send(b".")
    return False


@attempt
def limit_process(t: Targets) -> bool:
    return resource.prlimit(t["victim"], resource.RLIMIT_NOFILE) != ()


@attempt
def slow_process(t: Targets) -> bool:
    os.setpriority(os.PRIO_PROCESS, t["victim"], 1)
    return True


@attempt
def bind_process(t: Targets) -> bool:
    os.sched_setaffinity(t["victim"], os.sched_getaffinity(t["victim"]))
    return True


@attempt
def offer_process(t: Targets) -> bool:
    Path(f"/proc/{t['victim']}/oom_score_adj").write_text("10", encoding="ascii")
    return True


@attempt
def realtime(_: Targets) -> bool:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    return True


@attempt
def more_priority(_: Targets) -> bool:
    os.setpriority(os.PRIO_PROCESS, 0, -5)
    return True


@attempt
def privileged_programs(_: Targets) -> bool:
    """Programs such as `su` and `sudo` change the user on their execution, unless the process renounced that."""
    return _libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0


@attempt
def capabilities(_: Targets) -> bool:
    """Also of a program that it executes."""
    code = "import re; print(re.search(r'CapEff:\\s*(\\w+)', open('/proc/self/status').read())[1])"
    if os.path.isdir("/proc/self"):
        done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
        return int(done.stdout or "0", 16) != 0
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    return _libc.capget(header, data) == 0 and any(data)


@attempt
def other_user(_: Targets) -> bool:
    os.setuid(1 if os.getuid() == 0 else 0)
    return True


@attempt
def user_namespace(_: Targets) -> bool:
    call("unshare", _NEWUSER)
    return True


@attempt
def namespaces_by_clone(_: Targets) -> bool:
    return _started(call("clone", _NEWUSER | _SIGCHLD, 0, 0, 0, 0))


@attempt
def namespaces_by_new_clone(_: Targets) -> bool:
    arguments = (ctypes.c_uint64 * 8)(_NEWUSER, 0, 0, 0, _SIGCHLD, 0, 0, 0)
    return _started(call("clone3", ctypes.byref(arguments), ctypes.sizeof(arguments)))


def _started(child: int) -> bool:
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return True


@attempt
def namespaces_of_host(t: Targets) -> bool:
    handle = call("pidfd_open", t["victim"], 0)
    return call("setns", handle, _NEWNS) == 0


@attempt
def group_of_host(t: Targets) -> bool:
    """Leaves the control group. The first folder that it can write into decides."""
    for folder in t["outer_groups"]:
        Path(folder, "cgroup.procs").write_text("0", encoding="ascii")
    return bool(t["outer_groups"])


@attempt
def raise_group_limits(t: Targets) -> bool:
    for folder in t["groups"]:
        for name in ("pids.max", "memory.max", "memory.limit_in_bytes"):
            if Path(folder, name).exists():
                Path(folder, name).write_text(Path(folder, name).read_text(encoding="ascii"), encoding="ascii")
                return True
    return False


@attempt
def release_agent(t: Targets) -> bool:
    """With version 1 the kernel runs this program for an emptied group, outside of every confinement."""
    if not t["group_roots"]:
        raise OSError(errno.ENODEV, "no control groups of version 1")
    return any(Path(root, "release_agent").open("r+").close() is None for root in t["group_roots"])


@attempt
def raise_limits(_: Targets) -> bool:
    limits = (ctypes.c_uint64 * 2)(_UNLIMITED, _UNLIMITED)
    return call("prlimit64", 0, resource.RLIMIT_CORE, ctypes.byref(limits), None) == 0


@attempt
def dump_memory(_: Targets) -> bool:
    """A limit of 0 still hands a dump to a program of the machine; only 1 does not."""
    return resource.getrlimit(resource.RLIMIT_CORE)[0] != 1


@attempt
def calls_of_32_bits(_: Targets) -> bool:
    """Calls with the numbers of another architecture pass a filter that does not look at the architecture."""
    return _execute(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3") > 0  # mov eax, getpid; int 0x80; ret


@attempt
def calls_of_other_numbers(_: Targets) -> bool:
    return _execute(b"\xb8\x27\x00\x00\x40\x0f\x05\xc3") > 0  # mov eax, x32 getpid; syscall; ret


def _execute(code: bytes) -> int:
    if platform.machine() != "x86_64":
        raise OSError(errno.ENOSYS, "code of x86_64")
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    result = function()
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


@attempt
def secrets_in_environment(_: Targets) -> bool:
    return any(CANARY in value for name, value in os.environ.items() if "SECRET" in name)

"""Probes on files: of the host, of other plugins, of the machine, and devices."""

import array
import ctypes
import errno
import fcntl
import os
import shutil
import socket
import stat

from tests.confine.hostile.attack import Targets, attempt, call, scratch

CANARY = "canary"
_FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS = 0x80086601, 0x40086602
_FS_NODUMP = 0x40


def reads(path: str) -> bool:
    with open(path, "rb") as file:
        return CANARY.encode() in file.read(4096)


def opens(path: str, flags: int) -> bool:
    os.close(os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK))
    return True


@attempt
def read_key(t: Targets) -> bool:
    return reads(t["key"])


@attempt
def read_database(t: Targets) -> bool:
    return reads(t["database"])


@attempt
def read_other_plugin(t: Targets) -> bool:
    return reads(t["other_plugin"])


@attempt
def read_workspace(t: Targets) -> bool:
    return reads(t["workspace"])


@attempt
def read_home(t: Targets) -> bool:
    return reads(t["home_secret"])


@attempt
def read_temporary(t: Targets) -> bool:
    return reads(t["temporary_secret"])


@attempt
def read_shared_memory(t: Targets) -> bool:
    return reads(t["shared_secret"])


@attempt
def read_passwords(_: Targets) -> bool:
    return opens("/etc/shadow", os.O_RDONLY)


@attempt
def list_data(t: Targets) -> bool:
    return "keys" in os.listdir(t["data"])


@attempt
def stat_file(t: Targets) -> bool:
    return os.stat(t["key"]).st_size > 0


@attempt
def follow_link(t: Targets) -> bool:
    link = scratch("link")
    os.symlink(t["key"], link)
    return reads(link)


@attempt
def climb_out(t: Targets) -> bool:
    return reads("/".join([os.environ["HOME"], *[".."] * 40, t["key"].lstrip("/")]))


@attempt
def root_of_process(t: Targets) -> bool:
    return reads("/proc/self/root" + t["key"]) or reads("/proc/1/root" + t["key"])


@attempt
def hard_link(t: Targets) -> bool:
    os.link(t["key"], scratch("hard"))
    return True


@attempt
def move_file(t: Targets) -> bool:
    os.rename(t["disposable"], t["disposable"] + ".moved")
    os.rename(t["disposable"] + ".moved", t["disposable"])
    return True


@attempt
def remove_file(t: Targets) -> bool:
    os.unlink(t["doomed"])
    return True


@attempt
def create_file(t: Targets) -> bool:
    """The host looks whether the file is there: the same path may exist in the memory of the program."""
    os.close(os.open(os.path.join(t["data"], "planted"), os.O_CREAT | os.O_WRONLY))
    return False


@attempt
def truncate_file(t: Targets) -> bool:
    os.truncate(t["disposable"], 3)
    return True


@attempt
def change_mode(t: Targets) -> bool:
    os.chmod(t["disposable"], 0o777)
    return True


@attempt
def change_mode_by_new_call(t: Targets) -> bool:
    path = ctypes.c_char_p(t["disposable"].encode())
    return call("fchmodat2", -100, path, 0o777, 0) == 0


@attempt
def change_owner(t: Targets) -> bool:
    os.chown(t["disposable"], os.getuid(), os.getgid())
    return True


@attempt
def change_times(t: Targets) -> bool:
    os.utime(t["disposable"], (1, 1))
    return True


@attempt
def change_attributes(t: Targets) -> bool:
    os.setxattr(t["disposable"], "user.hostile", b"x")
    return True


@attempt
def change_flags(t: Targets) -> bool:
    with open(os.path.join(t["plugin"], "runner.py"), "rb") as file:
        flags = array.array("l", [0])
        fcntl.ioctl(file, _FS_IOC_GETFLAGS, flags, True)
        flags[0] |= _FS_NODUMP
        fcntl.ioctl(file, _FS_IOC_SETFLAGS, flags, False)
    return True


@attempt
def write_own_plugin(t: Targets) -> bool:
    return opens(os.path.join(t["plugin"], "runner.py"), os.O_WRONLY | os.O_APPEND)


@attempt
def mode_of_own_plugin(t: Targets) -> bool:
    os.chmod(os.path.join(t["plugin"], "runner.py"), 0o600)
    return True


@attempt
def write_host_code(t: Targets) -> bool:
    return opens(t["code"], os.O_WRONLY | os.O_APPEND)


@attempt
def write_system(_: Targets) -> bool:
    path = f"/usr/lib/bollard-hostile-{os.getpid()}"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    os.unlink(path)
    return True


@attempt
def file_handle(t: Targets) -> bool:
    handle = ctypes.create_string_buffer(8 + 128)
    ctypes.cast(handle, ctypes.POINTER(ctypes.c_uint))[0] = 128
    mount = ctypes.c_int()
    call("name_to_handle_at", -100, ctypes.c_char_p(t["key"].encode()), handle, ctypes.byref(mount), 0)
    folder = os.open(os.path.dirname(t["key"]), os.O_RDONLY | os.O_DIRECTORY)
    return os.read(call("open_by_handle_at", folder, handle, os.O_RDONLY), 100).startswith(CANARY.encode())


@attempt
def watch_folder(t: Targets) -> bool:
    return call("inotify_add_watch", call("inotify_init1", 0), ctypes.c_char_p(t["data_keys"].encode()), 0xFFF) >= 0


@attempt
def watch_machine(_: Targets) -> bool:
    return call("fanotify_init", 0, os.O_RDONLY) >= 0


@attempt
def inherited_descriptor(_: Targets) -> bool:
    for number in range(3, 4096):
        try:
            kind = os.fstat(number).st_mode
        except OSError:
            continue
        if stat.S_ISREG(kind) and os.pread(number, 100, 0).startswith(CANARY.encode()):
            return True
    return False


@attempt
def descriptor_folder(_: Targets) -> bool:
    return any(reads(f"/dev/fd/{number}") for number in range(3, 64) if _is_file(f"/dev/fd/{number}"))


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


@attempt
def make_device(t: Targets) -> bool:
    path = scratch("device")
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    return opens(path, os.O_RDONLY)


@attempt
def device_disk(_: Targets) -> bool:
    disks = [f"/dev/{name}" for name in ("vda", "sda", "nvme0n1", "loop0", "loop-control", "xvda")]
    return any(os.path.exists(path) and opens(path, os.O_RDONLY) for path in disks)


@attempt
def device_memory(_: Targets) -> bool:
    return opens("/dev/mem", os.O_RDONLY)


@attempt
def device_messages(_: Targets) -> bool:
    return opens("/dev/kmsg", os.O_RDONLY)


@attempt
def device_fuse(_: Targets) -> bool:
    return opens("/dev/fuse", os.O_RDWR)


@attempt
def device_tunnel(_: Targets) -> bool:
    return opens("/dev/net/tun", os.O_RDWR)


@attempt
def device_machine(_: Targets) -> bool:
    return opens("/dev/kvm", os.O_RDWR)


@attempt
def device_terminals(_: Targets) -> bool:
    return opens("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)


@attempt
def write_kernel_settings(_: Targets) -> bool:
    return opens("/proc/sys/kernel/core_pattern", os.O_WRONLY)


@attempt
def write_kernel_keys(_: Targets) -> bool:
    return opens("/proc/sysrq-trigger", os.O_WRONLY)


@attempt
def read_system_settings(_: Targets) -> bool:
    return bool(os.listdir("/sys/class"))


@attempt
def list_keys(_: Targets) -> bool:
    with open("/proc/keys", "rb") as file:
        return bool(file.read(100))


@attempt
def path_socket(t: Targets) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(t["path_socket"])
        return client.recv(100).startswith(CANARY.encode())


@attempt
def free_space_of_disk(t: Targets) -> bool:
    """Fills more than the home of a worker holds, without writing: blocks are only reserved."""
    folder = scratch("filler")
    os.mkdir(folder)
    try:
        for number in range(4):
            descriptor = os.open(f"{folder}/{number}", os.O_CREAT | os.O_WRONLY, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, 100 * 1024 * 1024)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM):
                    raise
                return False
            finally:
                os.close(descriptor)
        return True
    finally:
        shutil.rmtree(folder)

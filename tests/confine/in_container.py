"""Runs a command as a container runtime does: `in_container.py PROFILE COMMAND...`, started by the superuser.

The command has a process namespace with masked paths of `/proc`, control groups that it cannot write, no capabilities,
no way to new ones, a user of its own, and the system calls of the profile.
"""

import json
import os
import sys
from pathlib import Path

from tests.confine.under_profile import apply_profile

from bollard.confine.kernel import clear_capabilities, mount, mount_setattr, prctl, unshare

NEW_MOUNTS, NEW_PROCESSES = 0x20000, 0x20000000
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000
READ_ONLY = 0x1
MASKED_FILES = ("/proc/kcore", "/proc/keys", "/proc/timer_list")
MASKED_FOLDERS = ("/proc/acpi", "/proc/scsi", "/sys/firmware")
FIXED = ("/proc/sys", "/proc/bus", "/proc/irq", "/sys/fs/cgroup")
USER = 8420
NO_NEW_PRIVILEGES = 38


def main() -> None:
    profile = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    unshare(NEW_MOUNTS | NEW_PROCESSES)
    first = os.fork()
    if first:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]))
    mount(None, "/", RECURSIVE | PRIVATE)
    mount("proc", "/proc", 0, kind="proc")
    _show_installation()
    for path in filter(os.path.exists, MASKED_FILES):
        mount("/dev/null", path, BIND)
    for path in filter(os.path.isdir, MASKED_FOLDERS):
        mount("tmpfs", path, READ_ONLY, kind="tmpfs")
    for path in filter(os.path.isdir, FIXED):
        mount(path, path, BIND | RECURSIVE)
        mount_setattr(path, add=READ_ONLY, recursive=True)
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    clear_capabilities()
    prctl(NO_NEW_PRIVILEGES, 1)
    apply_profile(profile)
    os.execvp(sys.argv[2], sys.argv[2:])


def _show_installation() -> None:
    """Let other users reach this installation, where folders above it are closed to them: only here."""
    needed = {str(Path(path).resolve()) for path in (sys.base_prefix, sys.prefix, Path(__file__).parents[2])}
    opened = {path: os.open(path, os.O_PATH) for path in sorted(needed)}
    for path, descriptor in opened.items():
        closed = [each for each in reversed(Path(path).parents) if each.exists() and not each.stat().st_mode & 0o001]
        for each in closed[:1]:
            mount("tmpfs", str(each), 0, kind="tmpfs", data="mode=755")
        if not os.path.exists(path):
            os.makedirs(path)
            mount(f"/proc/self/fd/{descriptor}", path, BIND | RECURSIVE)
        os.close(descriptor)


if __name__ == "__main__":
    main()

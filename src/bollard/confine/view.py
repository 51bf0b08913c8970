"""The file system of a launched program: named paths of the machine, a home and temporary files in memory, and nothing
else. The launch process builds it in a mount namespace of its own."""

import contextlib
import os
import stat
from typing import Final

from bollard.confine.kernel import mount, mount_setattr, pivot_root, unmount
from bollard.confine.launch_order import HOME, SHARED, TEMPORARY, LaunchOrder
from bollard.confine.limits import LAUNCH_HOME_FILES, LAUNCH_SHARED_BYTES
from bollard.confine.order import DEVICES

_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_RDONLY, _NOSUID, _NODEV, _NOEXEC = 0x1, 0x2, 0x4, 0x8
_STAGE: Final = "/tmp"  # noqa: S108 - hidden by a mount of its own before anything is created in it
_OLD, _NEW = "/old", "/new"
_LINKS: Final = 40
"""Links on the way to one path, as the kernel counts them."""
_MASKED: Final = ("kcore", "key-users", "keys", "kmsg", "sysrq-trigger", "timer_list")
"""Files of `/proc` on the whole machine, or on keys of the user: a process namespace does not hide them."""


def enter_view(order: LaunchOrder) -> None:
    """Replace the root of this mount namespace, from the first process of a process namespace."""
    mount(None, "/", _MS_REC | _MS_PRIVATE)
    mount("tmpfs", _STAGE, _NOSUID | _NODEV, kind="tmpfs", data="size=64k,mode=0755")
    os.mkdir(_STAGE + _OLD)
    os.mkdir(_STAGE + _NEW)
    pivot_root(_STAGE, _STAGE + _OLD)
    os.chdir("/")
    mount("tmpfs", _NEW, _NOSUID | _NODEV, kind="tmpfs", data="size=1m,mode=0755")
    _make_home(order.limits.home_bytes)  # first: a shown path may be beneath it
    _show_all(order)
    _make_devices()
    _make_processes()
    os.mkdir(f"{_NEW}/.old")
    pivot_root(_NEW, f"{_NEW}/.old")
    os.chdir("/")
    unmount("/.old")
    os.rmdir("/.old")
    mount_setattr("/", add=_RDONLY)


def _show_all(order: LaunchOrder) -> None:
    """Show outer paths before inner ones, whether they are readable, writable or hidden."""
    paths = {
        **dict.fromkeys(order.readable, True),
        **dict.fromkeys(order.hidden, None),
        **dict.fromkeys(order.writable, False),
    }
    for path in sorted(paths):
        read_only = paths[path]
        if read_only is None:
            _hide(path)
        else:
            _show(path, read_only=read_only)


def _hide(path: str) -> None:
    """Cover a folder that an outer path shows."""
    if os.path.isdir(_NEW + path):
        mount("tmpfs", _NEW + path, _NOSUID | _NODEV, kind="tmpfs", data="size=64k,mode=0755")


def _show(path: str, *, read_only: bool) -> None:
    """Show one path of the machine at the same place, and the links on the way to it."""
    real = _follow(path)
    if real is None:
        return
    source, target = _OLD + real, _NEW + real
    if os.path.ismount(target):
        return  # the same folder under another name
    is_folder = stat.S_ISDIR(os.stat(source).st_mode)
    if not os.path.exists(target):
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        if is_folder:
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    mount(source, target, _MS_BIND | _MS_REC)
    mount_setattr(target, add=_NOSUID | _NODEV | (_RDONLY if read_only else 0), recursive=True)


def _follow(path: str) -> str | None:
    """Return the path without links, and make those links in the new root. `None` if it does not exist."""
    done, links = "", 0
    rest: list[str] = [part for part in path.split("/") if part]
    while rest:
        part = rest.pop(0)
        if part == "..":
            done = os.path.dirname(done)
            continue
        place = f"{done}/{part}"
        try:
            is_link = stat.S_ISLNK(os.lstat(_OLD + place).st_mode)
        except OSError:
            return None
        if not is_link:
            done = place
            continue
        links += 1
        if links > _LINKS:
            return None
        target = os.readlink(_OLD + place)
        if not os.path.lexists(_NEW + place):
            os.makedirs(_NEW + done, mode=0o755, exist_ok=True)
            os.symlink(target, _NEW + place)
        if target.startswith("/"):
            done = ""
        rest = [each for each in target.split("/") if each not in ("", ".")] + rest
    return done or None


def _make_devices() -> None:
    os.mkdir(f"{_NEW}/dev")
    for path in DEVICES:
        with contextlib.suppress(FileNotFoundError):
            os.stat(_OLD + path)
            os.close(os.open(_NEW + path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            mount(_OLD + path, _NEW + path, _MS_BIND)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, f"{_NEW}/dev/{name}")
    os.mkdir(_NEW + SHARED)
    shared = f"size={LAUNCH_SHARED_BYTES},mode=1777,nr_inodes={LAUNCH_HOME_FILES}"
    mount("tmpfs", _NEW + SHARED, _NOSUID | _NODEV | _NOEXEC, kind="tmpfs", data=shared)


def _make_processes() -> None:
    """Show the processes of this namespace. The kernel allows that only while the whole `/proc` of the machine is
    visible, which a container may hide; then it stays empty."""
    os.mkdir(f"{_NEW}/proc")
    try:
        mount("proc", f"{_NEW}/proc", _RDONLY | _NOSUID | _NODEV | _NOEXEC, kind="proc")
    except OSError:
        return
    for name in _MASKED:
        if os.path.exists(f"{_NEW}/proc/{name}"):
            mount(f"{_NEW}/dev/null", f"{_NEW}/proc/{name}", _MS_BIND)


def _make_home(home_bytes: int) -> None:
    """Home and temporary files share one size."""
    home, temporary = _NEW + HOME, _NEW + TEMPORARY
    os.makedirs(home)
    os.makedirs(temporary)
    size = f"size={home_bytes},mode=0700,nr_inodes={LAUNCH_HOME_FILES}"
    mount("tmpfs", home, _NOSUID | _NODEV, kind="tmpfs", data=size)
    os.mkdir(f"{home}/.tmp", 0o700)
    mount(f"{home}/.tmp", temporary, _MS_BIND)

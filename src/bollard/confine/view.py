"""The file system of a launched program: named paths of the machine, a home and temporary files in memory, and nothing
else. The launch process builds it in a mount namespace of its own."""

import contextlib
import os
import stat
from collections.abc import Mapping
from typing import Final

from bollard.confine.kernel import (
    attach_tree,
    clone_tree,
    mount,
    mount_setattr,
    open_without_links,
    openat2,
    pivot_root,
    unmount,
)
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
    """Show outer paths before inner ones, whether they are readable, writable or hidden. Their order is that of the
    places where they really are, so that no link brings an outer path over a hidden folder."""
    exact = frozenset((*order.exact, *order.hidden))
    links: dict[str, str] = {}
    found: dict[str, bool | None] = {}
    for path, read_only in (
        *((path, True) for path in order.readable),
        *((path, None) for path in order.hidden),
        *((path, False) for path in order.writable),
    ):
        real = path if path in exact else _follow(path, links)
        if real is not None:
            found[real] = read_only
    covers: list[int] = []
    for path in sorted(found):
        read_only = found[path]
        if read_only is None:
            covers += _hide(path, f"/empty-{len(covers)}")
        elif read_only is not _shown_around(path, found):
            _show(path, read_only=read_only)
    for place, target in links.items():
        _make_link(place, target)
    for cover in covers:
        mount_setattr(cover, add=_RDONLY)
        os.close(cover)


def _shown_around(path: str, found: Mapping[str, bool | None]) -> bool | None:
    """How the nearest outer path is shown. `None` if it is hidden or there is none."""
    inner = path
    while (outer := os.path.dirname(inner)) != inner:
        inner = outer
        if outer in found:
            return found[outer]
    return None


def _hide(path: str, empty: str) -> tuple[int, ...]:
    """Cover a folder that an outer path shows with an empty one, to which the mounts within it are still added. Returns
    the descriptor of the cover."""
    try:
        target = open_without_links(_NEW, path)
    except FileNotFoundError:
        return ()
    os.mkdir(empty, 0o755)
    folder = os.open(empty, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        cover = clone_tree(folder)
        mount_setattr(cover, add=_NOSUID | _NODEV)
        attach_tree(cover, target)
        return (cover,)
    finally:
        os.close(folder)
        os.close(target)


def _show(path: str, *, read_only: bool) -> None:
    """Show one path of the machine, which has no links, at the same place. Raises `OSError` if a part of it has become
    a link, here or there: a program may have swapped it."""
    try:
        source = open_without_links(_OLD, path)
    except FileNotFoundError:
        return
    tree = target = -1
    try:
        target = _make_target(path, is_folder=stat.S_ISDIR(os.fstat(source).st_mode))
        tree = clone_tree(source)
        mount_setattr(tree, add=_NOSUID | _NODEV | (_RDONLY if read_only else 0), recursive=True)
        attach_tree(tree, target)
    finally:
        for each in (source, target, tree):
            if each >= 0:
                os.close(each)


def _make_target(path: str, *, is_folder: bool) -> int:
    """Open the place of a mount in the new root, which is made if it is missing."""
    parent = _make_folders(os.path.dirname(path))
    try:
        name = os.path.basename(path)
        with contextlib.suppress(FileExistsError):
            if is_folder:
                os.mkdir(name, 0o755, dir_fd=parent)
            else:
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
                os.close(os.open(name, flags, 0o644, dir_fd=parent))
        return openat2(parent, os.fsencode(name), os.O_PATH)
    finally:
        os.close(parent)


def _make_folders(path: str) -> int:
    """Open a folder of the new root. Missing ones are made, and no link is followed."""
    held = os.open(_NEW, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in path.split("/"):
        if not name:
            continue
        outer = held
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=outer)
            held = openat2(outer, os.fsencode(name), os.O_PATH | os.O_DIRECTORY)
        finally:
            os.close(outer)
    return held


def _make_link(place: str, target: str) -> None:
    """Make a link that leads to a shown path, unless a shown path has it."""
    if os.path.lexists(_NEW + place):
        return
    folder = _make_folders(os.path.dirname(place))
    try:
        os.symlink(target, os.path.basename(place), dir_fd=folder)
    finally:
        os.close(folder)


def _follow(path: str, links: dict[str, str]) -> str | None:
    """Return the path without links, and note them. `None` if it does not exist."""
    done = ""
    rest: list[str] = [part for part in path.split("/") if part]
    count = 0
    while rest:
        part = rest.pop(0)
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        place = f"{done}/{part}"
        try:
            is_link = stat.S_ISLNK(os.lstat(_OLD + place).st_mode)
        except OSError:
            return None
        if not is_link:
            done = place
            continue
        count += 1
        if count > _LINKS:
            return None
        target = links[place] = os.readlink(_OLD + place)
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

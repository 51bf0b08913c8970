"""Names of things beneath a folder, and the one way to open them: the kernel walks, and follows no link.

A path is data: it is judged as text first, and whatever the text is, the kernel does not leave the folder.
"""

import errno
import os
import stat
from typing import Final

from bollard.confine.errors import NotThatKind, NotThere, PathRefused
from bollard.confine.kernel import openat2
from bollard.confine.limits import DEPTH, NAME_BYTES, PATH_BYTES

__all__ = ["is_plain_name", "judged", "open_beneath", "open_or_fail", "parts_of"]

_ENCODED: Final = ("%2e", "%2f", "%5c", "%00")
"""What some reader after us might take for a dot, a separator or an end."""
_REFUSED: Final = frozenset({errno.ELOOP, errno.EXDEV, errno.EINVAL, errno.ENAMETOOLONG, errno.EACCES, errno.EPERM})


def parts_of(path: str) -> tuple[str, ...]:
    """The names of a relative path, or `PathRefused`. A `.` alone is the folder itself: no names. Pure."""
    if path == ".":
        return ()
    names = tuple(path.removesuffix("/").split("/"))
    if len(names) > DEPTH or not all(is_plain_name(name) for name in names):
        raise PathRefused
    if len(path.encode()) > PATH_BYTES:
        raise PathRefused
    return names


def is_plain_name(name: str) -> bool:
    """Whether a name means the same to everybody who reads it. Pure."""
    if not name or name != name.rstrip(". ") or "\\" in name or "/" in name:
        return False
    if any(mark in name.lower() for mark in _ENCODED):
        return False
    if any(ord(character) < 0x20 or ord(character) == 0x7F or 0xD800 <= ord(character) < 0xE000 for character in name):
        return False
    return len(name.encode()) <= NAME_BYTES


def open_beneath(root: int, names: tuple[str, ...], flags: int, mode: int = 0) -> int:
    """A descriptor of what these names lead to beneath `root`. Raises `PathRefused`, `NotThere` or `NotThatKind`."""
    try:
        return open_or_fail(root, names, flags, mode)
    except OSError as error:
        raise judged(error) from None


def open_or_fail(root: int, names: tuple[str, ...], flags: int, mode: int = 0) -> int:
    """The same for whoever wants to know what exactly the kernel says. Raises `OSError`."""
    try:
        return openat2(root, os.fsencode("/".join(names) or "."), flags, mode)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    return _walked(root, names, flags, mode)


def judged(error: OSError) -> Exception:
    """What an error of the kernel means to whoever named the path."""
    match error.errno:
        case errno.ENOENT:
            return NotThere("nothing has this name", hint="list the folder to see what is there")
        case errno.EISDIR | errno.ENOTEMPTY:
            return NotThatKind("this is a folder", hint="name a file in it")
        case errno.ENOTDIR | errno.EEXIST:
            return NotThatKind("a file is where a folder is needed", hint="choose another name")
        case errno.ENXIO | errno.ENODEV:
            return NotThatKind("this is neither a file nor a folder")
        case number if number in _REFUSED:
            return PathRefused()
        case _:
            return error


def _walked(root: int, names: tuple[str, ...], flags: int, mode: int) -> int:
    """For kernels before 5.6: name by name, and no name that is a link. `..` is no name that gets here."""
    held = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root)
    try:
        if not names:
            return os.open(".", flags | os.O_CLOEXEC, dir_fd=held)
        for name in names[:-1]:
            following = _step(held, name, os.O_PATH | os.O_DIRECTORY, 0)
            os.close(held)
            held = following
        return _step(held, names[-1], flags, mode)
    finally:
        os.close(held)


def _step(held: int, name: str, flags: int, mode: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=held)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=held, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, "a link") from None  # the same answer as from a kernel that walks itself
        raise

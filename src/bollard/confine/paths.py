"""Paths beneath a folder, and the function that opens them: the kernel resolves the path and follows no link.

A path is checked as text first. Whatever the text is, the kernel does not leave the folder.
"""

import errno
import os
import stat
from typing import Final

from bollard.confine.errors import OverLimit, PathNotFound, PathRefused, WrongFileKind
from bollard.confine.kernel import openat2
from bollard.confine.limits import DEPTH, NAME_BYTES, PATH_BYTES, PATTERN_CHARACTERS

_ENCODED: Final = ("%2e", "%2f", "%5c", "%00")
"""Encodings that a later reader might decode to a dot, a separator or a terminator."""
_REFUSED: Final = frozenset({errno.ELOOP, errno.EXDEV, errno.EINVAL, errno.ENAMETOOLONG, errno.EACCES, errno.EPERM})


def split_path(path: str) -> tuple[str, ...]:
    """Split a relative path into names. A single `.` is the folder itself: no names. Raises `PathRefused`. Pure."""
    if path == ".":
        return ()
    names = tuple(path.removesuffix("/").split("/"))
    if len(names) > DEPTH or not all(is_plain_name(name) for name in names):
        raise PathRefused
    if len(path.encode()) > PATH_BYTES:
        raise PathRefused
    return names


def is_plain_name(name: str) -> bool:
    """Return whether a name is unambiguous for every reader. Pure."""
    if not name or name != name.rstrip(". ") or "\\" in name or "/" in name:
        return False
    if any(mark in name.lower() for mark in _ENCODED):
        return False
    if any(ord(character) < 0x20 or ord(character) == 0x7F or 0xD800 <= ord(character) < 0xE000 for character in name):
        return False
    return len(name.encode()) <= NAME_BYTES


def open_beneath(root: int, names: tuple[str, ...], flags: int, mode: int = 0) -> int:
    """Open a path beneath `root` and return its descriptor. Raises `PathRefused`, `PathNotFound` or `WrongFileKind`."""
    try:
        return open_raw(root, names, flags, mode)
    except OSError as error:
        raise translate_error(error) from None


def open_raw(root: int, names: tuple[str, ...], flags: int, mode: int = 0) -> int:
    """Like `open_beneath`, but raises the `OSError` of the kernel."""
    try:
        return openat2(root, os.fsencode("/".join(names) or "."), flags, mode)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    return _open_by_steps(root, names, flags, mode)


def translate_error(error: OSError) -> Exception:
    """Translate an error of the kernel for the caller who named the path."""
    match error.errno:
        case errno.ENOENT:
            return PathNotFound("the path does not exist", hint="list the folder to see its entries")
        case errno.EISDIR | errno.ENOTEMPTY:
            return WrongFileKind("this is a folder", hint="name a file in it")
        case errno.ENOTDIR | errno.EEXIST:
            return WrongFileKind("a part of the path is a file, not a folder", hint="choose another name")
        case errno.ENXIO | errno.ENODEV:
            return WrongFileKind("this is neither a file nor a folder")
        case number if number in _REFUSED:
            return PathRefused()
        case _:
            return error


def _open_by_steps(root: int, names: tuple[str, ...], flags: int, mode: int) -> int:
    """Open name by name without following links, for kernels before 5.6. `..` is refused before."""
    held = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root)
    try:
        if not names:
            return os.open(".", flags | os.O_CLOEXEC, dir_fd=held)
        for name in names[:-1]:
            following = _open_step(held, name, os.O_PATH | os.O_DIRECTORY, 0)
            os.close(held)
            held = following
        return _open_step(held, names[-1], flags, mode)
    finally:
        os.close(held)


def _open_step(held: int, name: str, flags: int, mode: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=held)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=held, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, "a link") from None  # the same error as from openat2
        raise


class Wildcard:
    """A pattern such as `src/**/*.py`: `*` and `?` match within a name, `**` matches any number of names. Pure.

    A pattern without `/` matches names at any depth. The time is bounded by the lengths of the pattern and the path.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_CHARACTERS:
            raise OverLimit(f"the pattern is longer than {PATTERN_CHARACTERS} characters")
        if not pattern or pattern.startswith("/") or "\0" in pattern:
            raise PathRefused
        segments = pattern.split("/")
        if ".." in segments or len(segments) > DEPTH:
            raise PathRefused
        self._segments = ["**", pattern] if len(segments) == 1 and pattern != "**" else segments

    def matches(self, path: str) -> bool:
        """Match a path with one pass for each segment."""
        names = path.split("/")
        reached = [True] + [False] * len(names)
        """Which prefixes of the path the segments so far match."""
        for segment in self._segments:
            following = [False] * (len(names) + 1)
            for count, is_reached in enumerate(reached):
                if segment == "**":
                    following[count] = is_reached or (count > 0 and following[count - 1])
                elif is_reached and count < len(names) and _name_matches(names[count], segment):
                    following[count + 1] = True
            reached = following
        return reached[-1]


def _name_matches(name: str, segment: str) -> bool:
    """Match one name with a single backtracking position: at most the product of both lengths."""
    at, of, star, mark = 0, 0, -1, 0
    while at < len(name):
        if of < len(segment) and segment[of] == "*":
            star, mark, of = of, at, of + 1
        elif of < len(segment) and segment[of] in ("?", name[at]):
            at, of = at + 1, of + 1
        elif star >= 0:
            mark += 1
            at, of = mark, star + 1
        else:
            return False
    return all(character == "*" for character in segment[of:])

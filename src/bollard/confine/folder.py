"""A folder that is held by its descriptor: everything beneath is reached through it, and nothing else is.

Whoever renames, links or swaps things in there meanwhile can make a call fail, and cannot make it reach further.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bollard.confine.errors import NotThatKind, NotThere, OverLimit, PathRefused
from bollard.confine.limits import DEPTH, ENTRIES, FILE_BYTES, FOLDER_BYTES, FOLDER_FILES
from bollard.confine.paths import is_plain_name, judged, open_beneath, open_or_fail, parts_of

__all__ = ["Entry", "Folder", "Usage"]

_PIECE: Final = 256 * 1024
_SWAPPED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV})
"""What a folder says that was taken away, or is a link now."""
_TEMPORARY: Final = ".bollard-"
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
"""Not blocking, because what looks like a file may be a pipe that nobody writes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing in a folder."""

    path: str
    kind: str
    """`file`, `folder`, or `other`: a link, a pipe, a device, which nobody opens."""
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How much is in a folder; `more` where the count was given up at a limit."""

    bytes: int
    files: int
    more: bool = False

    @property
    def over(self) -> bool:
        return self.more or self.bytes > FOLDER_BYTES or self.files > FOLDER_FILES


class Folder:
    """Reads, writes, lists and removes beneath one folder. Not shared between threads while it is closed."""

    def __init__(self, path: Path) -> None:
        self._root = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._root)

    def read(self, path: str, *, limit: int = FILE_BYTES) -> bytes:
        """A whole file. Raises `OverLimit` when it is larger than `limit`."""
        descriptor = self._file(path)
        try:
            content = b""
            while piece := os.read(descriptor, _PIECE):
                content += piece
                if len(content) > limit:
                    raise OverLimit(f"the file is larger than {limit} bytes", hint="read a smaller part, or another")
            return content
        finally:
            os.close(descriptor)

    def read_part(self, path: str, offset: int, length: int) -> tuple[bytes, int]:
        """A part of a file, and how large all of it is."""
        descriptor = self._file(path)
        try:
            size = os.fstat(descriptor).st_size
            return os.pread(descriptor, min(length, FILE_BYTES), offset), size
        finally:
            os.close(descriptor)

    def write(self, path: str, content: bytes) -> bool:
        """A whole file at once: whoever reads sees the old or the new. Says whether it is new. Folders are made."""
        names = parts_of(path)
        if not names or path.endswith("/"):
            raise PathRefused
        if len(content) > FILE_BYTES:
            raise OverLimit(f"the content is larger than {FILE_BYTES} bytes", hint="write it in smaller files")
        parent = self._made(names[:-1])
        try:
            existed = _is_replaceable(parent, names[-1])
            _replace(parent, names[-1], content)
        except OSError as error:
            raise judged(error) from None
        finally:
            os.close(parent)
        return not existed

    def remove(self, path: str) -> None:
        """A file, or a folder with nothing in it."""
        names = parts_of(path)
        if not names:
            raise PathRefused
        parent = open_beneath(self._root, names[:-1], os.O_PATH | os.O_DIRECTORY)
        try:
            kind = os.stat(names[-1], dir_fd=parent, follow_symlinks=False).st_mode
            if stat.S_ISDIR(kind):
                os.rmdir(names[-1], dir_fd=parent)
            elif stat.S_ISREG(kind):
                os.unlink(names[-1], dir_fd=parent)
            else:
                raise PathRefused
        except OSError as error:
            raise judged(error) from None
        finally:
            os.close(parent)

    def entries(self, path: str = ".", *, limit: int = ENTRIES) -> list[Entry]:
        """What is in one folder, by name. Names that are not plain are left out."""
        found = self._listed(parts_of(path), limit)
        return sorted(found, key=lambda entry: entry.path)

    def walk(self, path: str = ".", *, limit: int = ENTRIES) -> Iterator[Entry]:
        """Everything beneath, each folder before what is in it and by name; the end after `limit` entries."""
        waiting, seen = [parts_of(path)], 0
        while waiting:
            names = waiting.pop()
            try:
                found = sorted(self._listed(names, limit - seen), key=lambda entry: entry.path)
            except (NotThere, NotThatKind, PathRefused):
                if names == parts_of(path):
                    raise
                continue  # it was taken away or swapped meanwhile
            for entry in found:
                yield entry
                seen += 1
            if seen >= limit:
                return
            folders = [tuple(entry.path.split("/")) for entry in found if entry.kind == "folder"]
            waiting += [names for names in reversed(folders) if len(names) < DEPTH]

    def usage(self) -> Usage:
        """How much is in it, also of what has no plain name. Gives up where it is surely too much."""
        total, files = 0, 0
        waiting: list[tuple[str, ...]] = [()]
        while waiting:
            names = waiting.pop()
            try:
                descriptor = open_or_fail(self._root, names, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                if error.errno in _SWAPPED:
                    continue
                return Usage(bytes=total, files=files, more=True)  # what cannot be looked into may hold anything
            with _scanned(descriptor) as listing:
                for item in listing:
                    files += 1
                    with contextlib.suppress(OSError):
                        total += item.stat(follow_symlinks=False).st_blocks * 512
                        if item.is_dir(follow_symlinks=False):
                            waiting.append((*names, item.name))
                    if files > FOLDER_FILES or total > FOLDER_BYTES or len(names) > DEPTH:
                        return Usage(bytes=total, files=files, more=True)
        return Usage(bytes=total, files=files)

    def _file(self, path: str) -> int:
        names = parts_of(path)
        if not names or path.endswith("/"):
            raise PathRefused
        descriptor = open_beneath(self._root, names, _READ)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotThatKind("this is not a file", hint="list the folder to see what is there")
        return descriptor

    def _made(self, names: tuple[str, ...]) -> int:
        """The descriptor of a folder, which is made where it is not there."""
        held = open_beneath(self._root, (), os.O_PATH | os.O_DIRECTORY)
        for name in names:
            try:
                try:
                    os.mkdir(name, 0o700, dir_fd=held)
                except FileExistsError:
                    pass
                except OSError as error:
                    raise judged(error) from None
                following = open_beneath(held, (name,), os.O_PATH | os.O_DIRECTORY)
            finally:
                os.close(held)
            held = following
        return held

    def _listed(self, names: tuple[str, ...], limit: int) -> list[Entry]:
        found: list[Entry] = []
        with _scanned(open_beneath(self._root, names, os.O_RDONLY | os.O_DIRECTORY)) as listing:
            for item in listing:
                if len(found) >= limit:
                    break
                if is_plain_name(item.name):
                    with contextlib.suppress(OSError):
                        found.append(_entry((*names, item.name), item.stat(follow_symlinks=False)))
        return found


@contextlib.contextmanager
def _scanned(descriptor: int) -> Generator[Iterator[os.DirEntry[str]]]:
    """What is in a folder, and the end of its descriptor."""
    try:
        with os.scandir(descriptor) as listing:
            yield listing
    finally:
        os.close(descriptor)


def _entry(names: tuple[str, ...], told: os.stat_result) -> Entry:
    kind = "folder" if stat.S_ISDIR(told.st_mode) else "file" if stat.S_ISREG(told.st_mode) else "other"
    return Entry(path="/".join(names), kind=kind, size=told.st_size if kind == "file" else 0)


def _is_replaceable(parent: int, name: str) -> bool:
    """Whether a file is there. A link, a pipe or a device is not written to and not replaced."""
    try:
        kind = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(kind):
        raise NotThatKind("this is a folder", hint="name a file in it")
    if not stat.S_ISREG(kind):
        raise PathRefused
    return True


def _replace(parent: int, name: str, content: bytes) -> None:
    temporary = _TEMPORARY + secrets.token_hex(8)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
    try:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        finally:
            os.close(descriptor)
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=parent)
        raise

"""A folder held by its descriptor: every access goes through the descriptor and stays beneath it.

Concurrent renames, links or swaps inside the folder can make a call fail, but cannot make it leave the folder.
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

from bollard.confine.errors import OverLimit, PathNotFound, PathRefused, WrongFileKind
from bollard.confine.limits import DEPTH, ENTRIES, FILE_BYTES, FOLDER_BYTES, FOLDER_FILES
from bollard.confine.paths import is_plain_name, open_beneath, open_raw, split_path, translate_error

_PIECE: Final = 256 * 1024
_SWAPPED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV})
"""Errors of a folder that was removed or replaced by a link."""
_TEMPORARY: Final = ".bollard-"
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
"""Non-blocking, because the path may be a pipe without a writer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a folder."""

    path: str
    kind: str
    """`file`, `folder`, or `other`: a link, a pipe or a device, which are never opened."""
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The size of a folder's content. `more` means that the count stopped at a limit."""

    bytes: int
    files: int
    more: bool = False

    @property
    def over(self) -> bool:
        return self.more or self.bytes > FOLDER_BYTES or self.files > FOLDER_FILES


class Folder:
    """Reads, writes, lists and removes beneath one folder. Must not be used by another thread while it is closed."""

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
        """Read a whole file. Raises `OverLimit` if it is larger than `limit`."""
        descriptor = self._open_file(path)
        try:
            content = b""
            while piece := os.read(descriptor, _PIECE):
                content += piece
                if len(content) > limit:
                    raise OverLimit(f"the file is larger than {limit} bytes", hint="read a smaller part, or another")
            return content
        finally:
            os.close(descriptor)

    def write(self, path: str, content: bytes) -> bool:
        """Write a file atomically, creating its folders. Returns whether the file is new."""
        names = split_path(path)
        if not names or path.endswith("/"):
            raise PathRefused
        if len(content) > FILE_BYTES:
            raise OverLimit(f"the content is larger than {FILE_BYTES} bytes", hint="write it in smaller files")
        parent = self._open_or_create(names[:-1])
        try:
            existed = _is_replaceable(parent, names[-1])
            _replace(parent, names[-1], content)
        except OSError as error:
            raise translate_error(error) from None
        finally:
            os.close(parent)
        return not existed

    def remove(self, path: str) -> None:
        """Remove a file or an empty folder."""
        names = split_path(path)
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
            raise translate_error(error) from None
        finally:
            os.close(parent)

    def entries(self, path: str = ".", *, limit: int = ENTRIES) -> list[Entry]:
        """Return the entries of one folder by name. Names that are not plain are omitted."""
        found = self._list(split_path(path), limit)
        return sorted(found, key=lambda entry: entry.path)

    def walk(self, path: str = ".", *, limit: int = ENTRIES) -> Iterator[Entry]:
        """Yield all entries beneath a path, each folder before its content, by name; stops after `limit` entries."""
        waiting, seen = [split_path(path)], 0
        while waiting:
            names = waiting.pop()
            try:
                found = sorted(self._list(names, limit - seen), key=lambda entry: entry.path)
            except (PathNotFound, WrongFileKind, PathRefused):
                if names == split_path(path):
                    raise
                continue  # removed or replaced in the meantime
            for entry in found:
                yield entry
                seen += 1
            if seen >= limit:
                return
            folders = [tuple(entry.path.split("/")) for entry in found if entry.kind == "folder"]
            waiting += [names for names in reversed(folders) if len(names) < DEPTH]

    def usage(self) -> Usage:
        """Measure the content, including names that are not plain. Stops when a limit is exceeded."""
        total, files = 0, 0
        waiting: list[tuple[str, ...]] = [()]
        while waiting:
            names = waiting.pop()
            try:
                descriptor = open_raw(self._root, names, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                if error.errno in _SWAPPED:
                    continue
                return Usage(bytes=total, files=files, more=True)  # an unreadable folder may hold anything
            with _scan(descriptor) as listing:
                for item in listing:
                    files += 1
                    with contextlib.suppress(OSError):
                        total += item.stat(follow_symlinks=False).st_blocks * 512
                        if item.is_dir(follow_symlinks=False):
                            waiting.append((*names, item.name))
                    if files > FOLDER_FILES or total > FOLDER_BYTES or len(names) > DEPTH:
                        return Usage(bytes=total, files=files, more=True)
        return Usage(bytes=total, files=files)

    def _open_file(self, path: str) -> int:
        names = split_path(path)
        if not names or path.endswith("/"):
            raise PathRefused
        descriptor = open_beneath(self._root, names, _READ)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise WrongFileKind("this is not a file", hint="list the folder to see its entries")
        return descriptor

    def _open_or_create(self, names: tuple[str, ...]) -> int:
        """Open a folder and return its descriptor, creating missing folders."""
        held = open_beneath(self._root, (), os.O_PATH | os.O_DIRECTORY)
        for name in names:
            try:
                try:
                    os.mkdir(name, 0o700, dir_fd=held)
                except FileExistsError:
                    pass
                except OSError as error:
                    raise translate_error(error) from None
                next_folder = open_beneath(held, (name,), os.O_PATH | os.O_DIRECTORY)
            finally:
                os.close(held)
            held = next_folder
        return held

    def _list(self, names: tuple[str, ...], limit: int) -> list[Entry]:
        found: list[Entry] = []
        with _scan(open_beneath(self._root, names, os.O_RDONLY | os.O_DIRECTORY)) as listing:
            for item in listing:
                if len(found) >= limit:
                    break
                if is_plain_name(item.name):
                    with contextlib.suppress(OSError):
                        found.append(_entry((*names, item.name), item.stat(follow_symlinks=False)))
        return found


@contextlib.contextmanager
def _scan(descriptor: int) -> Generator[Iterator[os.DirEntry[str]]]:
    """Scan a folder, and close its descriptor at the end."""
    try:
        with os.scandir(descriptor) as listing:
            yield listing
    finally:
        os.close(descriptor)


def _entry(names: tuple[str, ...], status: os.stat_result) -> Entry:
    kind = "folder" if stat.S_ISDIR(status.st_mode) else "file" if stat.S_ISREG(status.st_mode) else "other"
    return Entry(path="/".join(names), kind=kind, size=status.st_size if kind == "file" else 0)


def _is_replaceable(parent: int, name: str) -> bool:
    """Return whether the file exists. A link, a pipe or a device is refused."""
    try:
        kind = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(kind):
        raise WrongFileKind("this is a folder", hint="name a file in it")
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


_LEVELS: Final = 64
"""The depth that one pass removes. Deeper folders are moved up first, so that any depth can be removed."""
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path) -> None:
    """Remove a folder with its content, of any depth. Must not run while the folder is in use. Raises `OSError`."""
    with contextlib.suppress(FileNotFoundError):
        root = os.open(path, _OPEN)
        try:
            while not _remove_contents(root, root, 0):
                pass  # each pass leaves a shallower tree
        finally:
            os.close(root)
        path.rmdir()


def _remove_contents(root: int, folder: int, level: int) -> bool:
    """Return whether everything was removed; otherwise a deep folder was moved to the root."""
    done = True
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except IsADirectoryError:
            if level == _LEVELS:
                os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=root)
                done = False
            else:
                done &= _remove_folder(root, folder, name, level)
    return done


def _remove_folder(root: int, parent: int, name: str, level: int) -> bool:
    os.chmod(name, 0o700, dir_fd=parent)  # not a link: unlink would have removed it
    folder = os.open(name, _OPEN, dir_fd=parent)
    try:
        done = _remove_contents(root, folder, level + 1)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=parent)  # always empty here: deeper folders were moved out
    return done

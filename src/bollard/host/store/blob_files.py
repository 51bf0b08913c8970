"""Files of a blob store, below one folder that is held open: no name is ever followed through a link.

Errors of the disk become `StorageFull` and `StorageUnavailable`. Knows names and bytes, no digests.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bollard.host.errors import HostError, StorageFull, StorageUnavailable
from bollard.trust import make_folder

__all__ = ["Folder", "disk_errors", "write_all"]

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def disk_errors() -> Generator[None]:
    """What the disk says, as the host's errors. A missing file stays `FileNotFoundError`: its caller knows more."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _translated(error) from error


def _translated(error: OSError) -> HostError:
    if error.errno in _FULL:
        return StorageFull("the disk is full", hint="free some space; writing resumes by itself")
    hint = "look at the data directory: its disk, its owner, and links that do not belong there"
    return StorageUnavailable(f"the blobs cannot be used: {error.strerror}", hint=hint, errno=error.errno)


class Folder:
    """One folder, by descriptor. Everything in it is named by one plain name."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def root(cls, path: Path) -> "Folder":
        make_folder(path, 0o700)
        return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY))

    def folder(self, name: str, *, make: bool) -> "Folder":
        """A folder inside this one. Raises `FileNotFoundError` when it is not there and is not to be made."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        try:
            return Folder(os.open(name, flags, dir_fd=self._descriptor))
        except FileNotFoundError:
            if not make:
                raise
        try:
            os.mkdir(name, 0o700, dir_fd=self._descriptor)
            self.sync()
        except FileExistsError:
            pass  # another thread was quicker
        return Folder(os.open(name, flags, dir_fd=self._descriptor))

    def open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._descriptor)

    def stat(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)

    def has(self, name: str) -> bool:
        """Whether there is a regular file of this name; a link is none."""
        try:
            return stat.S_ISREG(self.stat(name).st_mode)
        except FileNotFoundError:
            return False

    def touch(self, name: str) -> None:
        os.utime(name, dir_fd=self._descriptor, follow_symlinks=False)

    def move(self, name: str, other: "Folder", new_name: str) -> None:
        """Under another name, durably: both folders are flushed."""
        os.rename(name, new_name, src_dir_fd=self._descriptor, dst_dir_fd=other._descriptor)
        other.sync()
        self.sync()

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._descriptor)

    def names(self) -> Iterator[str]:
        with os.scandir(self._descriptor) as entries:
            yield from sorted(entry.name for entry in entries)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextmanager
    def locked(self, name: str) -> Generator[int]:
        """A file of this folder that nobody else holds meanwhile, in this process or another."""
        descriptor = self.open(name, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if self.stat(name).st_ino != os.fstat(descriptor).st_ino:  # moved away while we waited
                raise FileNotFoundError(errno.ENOENT, "gone", name)
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def alone(self) -> Generator[None]:
        """Nobody else is in here: for what must not happen at the same time."""
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def write_all(descriptor: int, content: bytes | memoryview, offset: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written

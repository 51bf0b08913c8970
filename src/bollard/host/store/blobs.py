"""Blobs: files named by the SHA-256 of their content, below one folder. Identical content is there once.

A blob counts when its file and its folder are flushed; until then it is an upload. Uploads go on where they stopped.
Who may read what, and which blobs are still wanted, is said by the artifacts of the store, not here.
"""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from bollard.host.clock import Clock, SystemClock
from bollard.host.errors import Conflict, HostError, InvalidRequest, NotFound, StorageFull, StorageUnavailable
from bollard.trust import make_folder

# Files of a blob store, below one folder that is held open: no name is ever followed through a link.
#
# Errors of the disk become `StorageFull` and `StorageUnavailable`. Knows names and bytes, no digests.


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


BLOB_BYTES: Final = 1 << 30
"""The largest blob, unless the store is told a smaller limit."""
CHUNK_BYTES: Final = 1 << 20
"""What is read into memory at once."""
UPLOAD_IDLE_S: Final = 24 * 3600
"""Time after which an upload that nobody continued is forgotten."""
UNREFERENCED_S: Final = 3600
"""Age below which a blob is kept although nothing refers to it: its artifact may be on its way."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_UPLOAD: Final = re.compile(r"[0-9a-f]{32}")
_SHARD: Final = re.compile(r"[0-9a-f]{2}")


class BlobStore:
    """The blobs of one host. Every call blocks; any thread may call."""

    def __init__(self, root: Path, *, max_bytes: int = BLOB_BYTES, clock: Clock | None = None) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._clock = clock or SystemClock()

    # --- writing ---

    def put(self, content: bytes) -> str:
        """Keep some bytes; returns their digest."""
        upload_id = self.begin()
        self.append(upload_id, 0, content)
        return self.finish(upload_id, hashlib.sha256(content).hexdigest())

    def begin(self) -> str:
        """Start an upload; returns its id."""
        upload_id = secrets.token_hex(16)
        with self._uploads() as uploads:
            os.close(uploads.open(upload_id, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        return upload_id

    def received(self, upload_id: str) -> int:
        """How many bytes of an upload are here: where it goes on."""
        with self._uploads() as uploads, _found("upload"):
            return uploads.stat(_upload_name(upload_id)).st_size

    def append(
        self,
        upload_id: str,
        offset: int,
        content: bytes,
        *,
        reach: int = 0,
        judge: Callable[[bytes], None] = lambda _: None,
    ) -> int:
        """Add bytes at `offset`; returns how many are here now. The same bytes again change nothing.

        `judge` is given the bytes behind `reach` others that came before them. Where it raises, nothing is added; and
        no other bytes come in between, whoever else appends.
        """
        name = _upload_name(upload_id)
        if offset < 0:
            raise InvalidRequest("an offset is not negative", hint="count from 0", field="offset")
        if offset + len(content) > self._max_bytes:
            hint = f"at most {self._max_bytes} bytes are taken"
            raise InvalidRequest("the content is too large", hint=hint, field="content", limit=self._max_bytes)
        with self._uploads() as uploads, _found("upload"), uploads.locked(name) as file:
            here = os.fstat(file).st_size
            if offset > here:
                hint = f"go on at {here}"
                raise Conflict(f"bytes {here} to {offset} are missing", hint=hint, expected=here)
            again = content[: here - offset]
            if os.pread(file, len(again), offset) != again:
                raise Conflict("other bytes were received here before", hint="start a new upload", expected=here)
            before = min(offset, reach)
            judge(os.pread(file, before, offset - before) + content)
            write_all(file, memoryview(content)[len(again) :], here)
            return max(here, offset + len(content))

    def received_bytes(self, upload_id: str) -> bytes:
        """What is here of an upload, whole: for one that is known to be small enough."""
        with self._uploads() as uploads, _found("upload"), uploads.locked(_upload_name(upload_id)) as file:
            return os.pread(file, os.fstat(file).st_size, 0)

    def received_pieces(self, upload_id: str) -> Iterator[bytes]:
        """The same in pieces, never whole in memory."""
        with self._uploads() as uploads, _found("upload"), uploads.locked(_upload_name(upload_id)) as file:
            offset = 0
            while piece := os.pread(file, CHUNK_BYTES, offset):
                offset += len(piece)
                yield piece

    def finish(self, upload_id: str, sha256: str) -> str:
        """Make an upload a blob, if its content has this digest; returns the digest. It counts when this returns."""
        name, digest = _upload_name(upload_id), _digest_name(sha256)
        with self._uploads() as uploads, _found("upload"), uploads.locked(name) as file:
            if _sha256(file) != digest:
                raise Conflict("the content has another digest", hint="start a new upload", expected=digest)
            os.fsync(file)
            self._keep(uploads, name, digest)
        return digest

    def abandon(self, upload_id: str) -> None:
        """Forget an upload."""
        with self._uploads() as uploads, _found("upload"):
            uploads.remove(_upload_name(upload_id))

    # --- reading ---

    def size(self, sha256: str) -> int:
        with self._blob(sha256) as file:
            return os.fstat(file).st_size

    def read(self, sha256: str, offset: int = 0, length: int = CHUNK_BYTES) -> bytes:
        """Some bytes of a blob; fewer at its end, none behind it."""
        if offset < 0 or length < 1:
            raise InvalidRequest("a range begins at 0 or later and is not empty", hint="ask for bytes", field="range")
        with self._blob(sha256) as file:
            return os.pread(file, min(length, CHUNK_BYTES), offset)

    def stream(self, sha256: str, offset: int = 0) -> Iterator[bytes]:
        """A blob in pieces, never whole in memory."""
        with self._blob(sha256) as file:
            while piece := os.pread(file, CHUNK_BYTES, offset):
                offset += len(piece)
                yield piece

    # --- sweeping ---

    def sweep(
        self,
        referenced: Iterable[str],
        *,
        unreferenced_s: float = UNREFERENCED_S,
        upload_idle_s: float = UPLOAD_IDLE_S,
    ) -> int:
        """Remove blobs that nothing refers to and uploads that stopped; returns how many."""
        wanted = frozenset(referenced)
        now = self._clock.now_ms() / 1000
        removed = 0
        with self._folder("uploads") as uploads:
            for name in list(uploads.names()):
                removed += _UPLOAD.fullmatch(name) is not None and _remove_old(uploads, name, now - upload_idle_s)
        with self._folder("sha256") as blobs:
            for shard in list(blobs.names()):
                if _SHARD.fullmatch(shard) is None:
                    continue
                with blobs.folder(shard, make=False) as folder, folder.alone():
                    for name in list(folder.names()):
                        unwanted = _DIGEST.fullmatch(name) is not None and name not in wanted
                        removed += unwanted and _remove_old(folder, name, now - unreferenced_s)
        return removed

    # --- files ---

    @contextmanager
    def _folder(self, name: str) -> Generator[Folder]:
        with disk_errors(), Folder.root(self._root) as root, root.folder(name, make=True) as folder:
            yield folder

    def _uploads(self) -> AbstractContextManager[Folder]:
        return self._folder("uploads")

    def _keep(self, uploads: Folder, name: str, digest: str) -> None:
        with self._folder("sha256") as blobs, blobs.folder(digest[:2], make=True) as folder, folder.alone():
            # Young, so that no sweep takes it before its artifact is written: it may be there since long, and the last
            # piece of an upload may have come hours ago.
            if folder.has(digest):
                folder.touch(digest)
                uploads.remove(name)
            else:
                uploads.touch(name)
                uploads.move(name, folder, digest)

    @contextmanager
    def _blob(self, sha256: str) -> Generator[int]:
        digest = _digest_name(sha256)
        with self._folder("sha256") as blobs, _found("blob"), blobs.folder(digest[:2], make=False) as folder:
            file = folder.open(digest, os.O_RDONLY)
            try:
                yield file
            finally:
                os.close(file)


@contextmanager
def _found(what: str) -> Generator[None]:
    try:
        yield
    except FileNotFoundError:
        raise _not_found(what) from None


def _not_found(what: str) -> NotFound:
    return NotFound(f"there is no such {what}", hint="it may have expired")


def _upload_name(upload_id: str) -> str:
    """Only names that this store makes become names of files."""
    if _UPLOAD.fullmatch(upload_id) is None:
        raise _not_found("upload")
    return upload_id


def _digest_name(sha256: str) -> str:
    if _DIGEST.fullmatch(sha256) is None:
        raise _not_found("blob")
    return sha256


def _remove_old(folder: Folder, name: str, before: float) -> bool:
    try:
        if folder.stat(name).st_mtime >= before:
            return False
        folder.remove(name)
    except FileNotFoundError:
        return False
    return True


def _sha256(file: int) -> str:
    digest, offset = hashlib.sha256(), 0
    while piece := os.pread(file, CHUNK_BYTES, offset):
        digest.update(piece)
        offset += len(piece)
    return digest.hexdigest()

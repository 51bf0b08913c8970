"""Blobs: files named by the SHA-256 of their content, below one folder. Identical content is stored once.

A blob exists once its file and its folder are flushed; until then it is an upload. Uploads can be resumed. The
artifacts of the store decide who may read a blob and which blobs are still referenced.
"""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

from bollard.host.clock import Clock, SystemClock
from bollard.host.errors import (
    Conflict,
    HostError,
    InvalidRequest,
    NotFound,
    StorageFull,
    StorageUnavailable,
    caused_by,
)
from bollard.trust import make_folder

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def disk_errors() -> Generator[None]:
    """Translate errors of the disk into `HostError`. A missing file stays `FileNotFoundError` for the caller."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _host_error(error) from error


def _host_error(error: OSError) -> HostError:
    if error.errno in _FULL:
        return disk_full()
    return StorageUnavailable(
        f"the blobs cannot be used: {error.strerror}",
        reason="blobs_unusable",
        hint="check the data directory: its disk, its owner, and unexpected links",
        errno=error.errno,
        **caused_by(error),
    )


class Folder:
    """One folder, by descriptor. Names are plain, and links are never followed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def root(cls, path: Path) -> "Folder":
        make_folder(path, 0o700)
        return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY))

    def folder(self, name: str, *, make: bool) -> "Folder":
        """Open a folder inside this one. Raises `FileNotFoundError` if it is missing and `make` is false."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        try:
            return Folder(os.open(name, flags, dir_fd=self._descriptor))
        except FileNotFoundError:
            if not make:
                raise
        self.make(name)
        self.sync()
        return Folder(os.open(name, flags, dir_fd=self._descriptor))

    def make(self, name: str) -> None:
        """Make a folder inside this one. It exists durably after `sync`."""
        with suppress(FileExistsError):  # another thread was faster
            os.mkdir(name, 0o700, dir_fd=self._descriptor)

    def open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._descriptor)

    def stat(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)

    def has(self, name: str) -> bool:
        """Whether a regular file has this name; links do not count."""
        try:
            return stat.S_ISREG(self.stat(name).st_mode)
        except FileNotFoundError:
            return False

    def refresh(self, digest: str) -> bool:
        """Whether the blob of this digest is here, with its content. It gets a fresh time, so that no sweep removes it
        before its artifact is written. The caller has the lock."""
        if not self.has(digest):
            return False
        file = self.open(digest, os.O_RDONLY)
        try:
            whole = _sha256(file) == digest
        finally:
            os.close(file)
        if whole:
            self.touch(digest)
        return whole

    def touch(self, name: str) -> None:
        os.utime(name, dir_fd=self._descriptor, follow_symlinks=False)

    def move(self, name: str, other: "Folder", new_name: str) -> None:
        os.rename(name, new_name, src_dir_fd=self._descriptor, dst_dir_fd=other._descriptor)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._descriptor)

    def names(self) -> Iterator[str]:
        with os.scandir(self._descriptor) as entries:
            yield from sorted(entry.name for entry in entries)

    def fileno(self) -> int:
        return self._descriptor

    def sync(self) -> None:
        os.fsync(self)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextmanager
    def locked(self, name: str) -> Generator[int]:
        """Open a file of this folder with an exclusive lock, across threads and processes."""
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
        """Lock the folder exclusively."""
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
"""The largest blob, unless the store has a smaller limit."""
CHUNK_BYTES: Final = 1 << 20
"""Bytes that are read into memory at once."""
UPLOAD_IDLE_S: Final = 24 * 3600
"""Time after which an idle upload is removed."""
UNREFERENCED_S: Final = 3600
"""Age below which an unreferenced blob is kept: its artifact may not be written yet."""

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
        """Store bytes; returns their digest."""
        self._check_size(len(content))
        digest, name = hashlib.sha256(content).hexdigest(), secrets.token_hex(16)
        if self._has(digest):
            return digest
        with self._uploads() as uploads:
            file = uploads.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                write_all(file, content, 0)
                self._keep(uploads, name, digest, file)
            except BaseException:
                with suppress(FileNotFoundError):
                    uploads.remove(name)
                raise
            finally:
                os.close(file)
        return digest

    def begin(self) -> str:
        """Start an upload; returns its id."""
        upload_id = secrets.token_hex(16)
        with self._uploads() as uploads:
            os.close(uploads.open(upload_id, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        return upload_id

    def received(self, upload_id: str) -> int:
        """The number of bytes received, which is the offset to resume at."""
        with self._uploads() as uploads, _upload_exists():
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
        """Add bytes at `offset`; returns the number of bytes received. Repeated bytes change nothing.

        `judge` receives the new bytes, preceded by up to `reach` earlier bytes. If it raises, nothing is added. The
        upload is locked meanwhile.
        """
        name = _upload_name(upload_id)
        if offset < 0:
            raise InvalidRequest(
                f"the offset is {offset}", reason="offset_negative", hint="count from 0", field="offset", offset=offset
            )
        self._check_size(offset + len(content))
        with self._uploads() as uploads, _upload_exists(), uploads.locked(name) as file:
            size = os.fstat(file).st_size
            if offset > size:
                raise Conflict(
                    f"bytes {size} to {offset} are missing",
                    reason="bytes_missing",
                    hint=f"continue at {size}",
                    expected=size,
                    offset=offset,
                )
            repeated = content[: size - offset]
            if os.pread(file, len(repeated), offset) != repeated:
                raise Conflict(
                    f"the upload has other bytes at {offset}",
                    reason="bytes_differ",
                    hint="start a new upload",
                    expected=size,
                    offset=offset,
                )
            before = min(offset, reach)
            judge(os.pread(file, before, offset - before) + content)
            write_all(file, memoryview(content)[len(repeated) :], size)
            return max(size, offset + len(content))

    def received_bytes(self, upload_id: str) -> bytes:
        """The bytes of an upload, for uploads that are known to be small."""
        with self._uploads() as uploads, _upload_exists(), uploads.locked(_upload_name(upload_id)) as file:
            return os.pread(file, os.fstat(file).st_size, 0)

    def received_pieces(self, upload_id: str) -> Generator[bytes]:
        """The bytes of an upload in pieces."""
        with self._uploads() as uploads, _upload_exists(), uploads.locked(_upload_name(upload_id)) as file:
            offset = 0
            while piece := os.pread(file, CHUNK_BYTES, offset):
                offset += len(piece)
                yield piece

    def finish(self, upload_id: str, sha256: str) -> str:
        """Turn an upload with this digest into a blob, durably; returns the digest."""
        name, digest = _upload_name(upload_id), _digest_name(sha256)
        with self._uploads() as uploads, _upload_exists(), uploads.locked(name) as file:
            if _sha256(file) != digest:
                raise Conflict(
                    f"the digest of the content is not {digest}",
                    reason="digest_differs",
                    hint="start a new upload",
                    expected=digest,
                )
            self._keep(uploads, name, digest, file)
        return digest

    def keep(self, upload_id: str, sha256: str) -> str:
        """As `finish`, for a digest that the caller computed of the bytes that it added."""
        name, digest = _upload_name(upload_id), _digest_name(sha256)
        with self._uploads() as uploads, _upload_exists(), uploads.locked(name) as file:
            self._keep(uploads, name, digest, file)
        return digest

    def abandon(self, upload_id: str) -> None:
        """Remove an upload."""
        with self._uploads() as uploads, _upload_exists():
            uploads.remove(_upload_name(upload_id))

    # --- reading ---

    def size(self, sha256: str) -> int:
        with self._blob(sha256) as file:
            return os.fstat(file).st_size

    def read(self, sha256: str, offset: int = 0, length: int = CHUNK_BYTES) -> bytes:
        """A range of bytes of a blob; shorter at its end, empty after it."""
        if offset < 0 or length < 1:
            raise InvalidRequest(
                f"the range of {length} bytes from {offset} is not valid",
                reason="range_invalid",
                hint="start at 0 or later, and read at least one byte",
                field="range",
                offset=offset,
                length=length,
            )
        with self._blob(sha256) as file:
            return os.pread(file, min(length, CHUNK_BYTES), offset)

    def stream(self, sha256: str, offset: int = 0) -> Iterator[bytes]:
        """The bytes of a blob in pieces."""
        with self._blob(sha256) as file:
            while piece := os.pread(file, CHUNK_BYTES, offset):
                offset += len(piece)
                yield piece

    # --- sweeping ---

    def sweep(
        self, referenced: Iterable[str], *, unreferenced_s: float = UNREFERENCED_S, upload_idle_s: float = UPLOAD_IDLE_S
    ) -> int:
        """Remove unreferenced blobs and idle uploads; returns how many."""
        kept_digests = frozenset(referenced)
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
                        unreferenced = _DIGEST.fullmatch(name) is not None and name not in kept_digests
                        removed += unreferenced and _remove_old(folder, name, now - unreferenced_s)
        return removed

    # --- files ---

    @contextmanager
    def _folder(self, name: str) -> Generator[Folder]:
        with disk_errors(), Folder.root(self._root) as root, root.folder(name, make=True) as folder:
            yield folder

    def _uploads(self) -> AbstractContextManager[Folder]:
        return self._folder("uploads")

    def _keep(self, uploads: Folder, name: str, digest: str, file: int) -> None:
        """Give an upload the name of its digest, durably.

        The file gets its name before both are flushed: one commit of the file system then serves both. After a crash in
        between, the name may stand for other bytes. No artifact refers to them, and the next content with this digest
        replaces them.
        """
        with self._folder("sha256") as blobs:
            blobs.make(digest[:2])
            with blobs.folder(digest[:2], make=False) as folder, folder.alone():
                if folder.refresh(digest):
                    uploads.remove(name)
                    return
                uploads.touch(name)  # the last piece may be hours old, and a sweep must not remove the blob
                uploads.move(name, folder, digest)
                for each in (file, folder, blobs):
                    os.fsync(each)

    def _has(self, digest: str) -> bool:
        try:
            with self._folder("sha256") as blobs, blobs.folder(digest[:2], make=False) as folder, folder.alone():
                return folder.refresh(digest)
        except FileNotFoundError:
            return False

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise InvalidRequest(
                "the content is too large",
                reason="content_too_large",
                hint=f"send at most {self._max_bytes} bytes",
                field="content",
                limit=self._max_bytes,
            )

    @contextmanager
    def _blob(self, sha256: str) -> Generator[int]:
        digest = _digest_name(sha256)
        try:
            with self._folder("sha256") as blobs, blobs.folder(digest[:2], make=False) as folder:
                file = folder.open(digest, os.O_RDONLY)
        except FileNotFoundError:
            raise _no_blob() from None
        try:
            with disk_errors():
                yield file
        finally:
            os.close(file)


@contextmanager
def _upload_exists() -> Generator[None]:
    try:
        yield
    except FileNotFoundError:
        raise _no_upload() from None


def disk_full(**details: str) -> StorageFull:
    return StorageFull(
        "the disk is full", reason="no_space", hint="free some space; writing resumes by itself", **details
    )


def _no_upload() -> NotFound:
    return NotFound("there is no such upload", reason="no_such_upload", hint="it may have expired")


def _no_blob() -> NotFound:
    return NotFound("there is no such blob", reason="no_such_blob", hint="it may have expired")


def _upload_name(upload_id: str) -> str:
    """Only names that this store creates become file names."""
    if _UPLOAD.fullmatch(upload_id) is None:
        raise _no_upload()
    return upload_id


def _digest_name(sha256: str) -> str:
    if _DIGEST.fullmatch(sha256) is None:
        raise _no_blob()
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

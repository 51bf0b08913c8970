"""The writer of an archive. The file gets its final name once it is complete and flushed."""

import errno
import hashlib
import os
import re
import shutil
import zipfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec

from bollard.host.archive.manifest import MANIFEST, SIGNATURE, Manifest, Member, sign_manifest
from bollard.host.errors import Conflict, StorageFull, StorageUnavailable, caused_by
from bollard.trust import sync_folder
from bollard.trust.keys import SigningKey

# --- unfinished files: named by their process, and removed by the next one ---


def unfinished_name(path: Path, suffix: str) -> Path:
    """The hidden path of an unfinished file or directory of this process."""
    return path.with_name(f".{path.name}.{os.getpid()}.{suffix}")


def remove_leftovers(path: Path, suffix: str) -> None:
    """Remove unfinished files of ended processes. Errors are ignored."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(\d+)\.{suffix}")
    try:
        found = list(path.absolute().parent.iterdir())
    except OSError:
        return
    for entry in found:
        named = pattern.fullmatch(entry.name)
        if named is None or _is_alive(int(named[1])):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""Errors of file systems without hard links."""
_QUICK: Final = 1
"""The compression level: higher levels shrink rows only a little more."""


class _Sink(Protocol):
    def write(self, data: bytes, /) -> int: ...


class MemberWriter:
    """One open member, which counts and hashes its content."""

    def __init__(self, sink: _Sink) -> None:
        self._sink = sink
        self._digest = hashlib.sha256()
        self._size = 0
        self._lines = 0

    def write(self, piece: bytes) -> None:
        self._digest.update(piece)
        self._size += len(piece)
        self._sink.write(piece)

    def line(self, text: bytes) -> None:
        self._lines += 1
        self.write(text + b"\n")

    def noted(self) -> Member:
        return Member(size=self._size, sha256=self._digest.hexdigest(), lines=self._lines)


class ArchiveWriter:
    """A new archive. Without `finish`, the `with` block removes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = unfinished_name(path, "partial")
        self.members: dict[str, Member] = {}
        self.blobs = 0

    def __enter__(self) -> Self:
        if self._path.exists():
            raise self._taken()
        remove_leftovers(self._path, "partial")
        with self._disk_errors():
            descriptor = os.open(self._partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._file = os.fdopen(descriptor, "w+b")
            self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED, compresslevel=_QUICK)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError, ValueError):
            self._zip.close()
        self._file.close()
        with suppress(FileNotFoundError):
            self._partial.unlink()

    @contextmanager
    def member(self, name: str) -> Generator[MemberWriter]:
        """Open a member that the manifest describes."""
        with self._disk_errors(), self._zip.open(name, "w", force_zip64=True) as sink:
            writer = MemberWriter(sink)
            yield writer
            self.members[name] = writer.noted()

    def blob(self, sha256: str, pieces: Iterable[bytes]) -> None:
        """Write a content under its digest, which is checked when the archive is verified."""
        plain = zipfile.ZipInfo(f"blobs/{sha256}")  # not packed: most of it is packed already
        with self._disk_errors(), self._zip.open(plain, "w", force_zip64=True) as sink:
            for piece in pieces:
                sink.write(piece)
        self.blobs += 1

    def finish(self, manifest: Manifest, key: SigningKey) -> None:
        """Write the manifest and its signature, and flush the archive, which has no final name yet."""
        text = msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"
        with self._disk_errors():
            for name, content in ((MANIFEST, text), (SIGNATURE, sign_manifest(text, key))):
                with self._zip.open(name, "w") as sink:
                    sink.write(content)
            self._zip.close()
            self._file.flush()
            os.fsync(self._file.fileno())

    @property
    def unnamed(self) -> Path:
        """The path until the archive gets its name."""
        return self._partial

    def name(self) -> None:
        """Give the archive its name. Raises `Conflict` if a file of this name exists."""
        with self._disk_errors():
            try:
                os.link(self._partial, self._path)
            except FileExistsError:
                raise self._taken() from None
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                if self._path.exists():
                    raise self._taken() from None
                self._partial.rename(self._path)
            sync_folder(self._path.parent)

    def _taken(self) -> Conflict:
        return Conflict(
            f"{self._path.name} exists already and is not overwritten",
            reason="archive_exists",
            hint="choose another name",
            file=self._path.name,
        )

    @contextmanager
    def _disk_errors(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise StorageFull(
                    f"there is no space left for {self._path.name}",
                    reason="no_space_for_archive",
                    hint="free some space, or write it to another disk",
                    file=self._path.name,
                ) from error
            raise StorageUnavailable(
                f"{self._path.name} cannot be written: {error.strerror}",
                reason="archive_not_written",
                hint="choose another directory",
                file=self._path.name,
                **caused_by(error),
            ) from error

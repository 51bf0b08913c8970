"""The reader of an archive that may be forged: it trusts no declared size or name, and counts and hashes every byte.

Raises `BadArchive`. Writes nothing.
"""

import hashlib
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

import msgspec

from bollard.host.archive.manifest import MANIFEST, SIGNATURE, ArchiveKind, Manifest, signer_of
from bollard.host.errors import BadArchive, NotFound, caused_by
from bollard.host.limits import (
    ARCHIVE_BYTES,
    ARCHIVE_DIRECTORY_BYTES,
    ARCHIVE_LINE_BYTES,
    ARCHIVE_MANIFEST_BYTES,
    ARCHIVE_MEMBERS,
    ARCHIVE_SIGNATURE_BYTES,
    MIB,
)
from bollard.trust import BadSignature
from bollard.trust.keys import VerifyKey

FORMAT: Final = 2
"""Signed, without projections."""
UNSIGNED_FORMAT: Final = 1
"""The format of earlier versions."""
_NAME: Final = re.compile(
    r"((manifest|signature)\.json|(tables|keys|files)/[a-z0-9][a-z0-9._-]{0,127}|blobs/[0-9a-f]{64})"
)
_SCHEMA_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
"""Names of tables and columns, which become part of statements."""
_BLOB: Final = "blobs/"
_CHUNK_BYTES: Final = MIB
_ENCRYPTED: Final = 0x1
_LOCAL_HEADER_BYTES: Final = 30
_END: Final = struct.Struct("<4sHHHHLLH")
_END_BYTES: Final = 22
_COMMENT_BYTES: Final = 65_535
_LOCATOR: Final = struct.Struct("<4sLQL")
_LARGE_END: Final = struct.Struct("<4sQ2H2L4Q")
_BROKEN: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)
"""The exceptions of Python's reader for a malformed file."""


class ArchiveReader:
    """One open archive. Members can be read in any order and repeatedly."""

    manifest: Manifest
    signer: VerifyKey | None
    """The key that signed the manifest. Its owner is not verified here."""

    def __init__(self, path: Path, kind: ArchiveKind, *, max_bytes: int = ARCHIVE_BYTES) -> None:
        self._path = path
        self._kind = kind
        self._max_bytes = max_bytes

    def __enter__(self) -> Self:
        try:
            self._file: IO[bytes] = self._path.open("rb")
        except FileNotFoundError:
            raise NotFound(
                f"there is no file {self._path}",
                reason="no_archive",
                hint="name an archive that exists",
                path=str(self._path),
            ) from None
        except OSError as error:
            raise self._unreadable(error, "name a readable file") from error
        try:
            with self._suspicion():
                _check_directory_size(self._file)
                self._zip = zipfile.ZipFile(self._file)
                self._sizes = self._checked_members()
            text = self._small(MANIFEST, ARCHIVE_MANIFEST_BYTES)
            self.manifest = self._read_manifest(text)
            self.signer = self._find_signer(text)
            self._check_manifest()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()
        self._file.close()

    @property
    def blobs(self) -> list[str]:
        """The digests of the contents."""
        return [name.removeprefix(_BLOB) for name in self._sizes if name.startswith(_BLOB)]

    @property
    def total_bytes(self) -> int:
        """The sum of the declared sizes."""
        return sum(self._sizes.values())

    def pieces(self, name: str) -> Iterator[bytes]:
        """A member in pieces. Raises `BadArchive` at its end if it differs from the manifest."""
        noted = self.manifest.members[name]
        return self._counted(name, noted.size, noted.sha256)

    def blob(self, sha256: str) -> Iterator[bytes]:
        """A content in pieces. Raises `BadArchive` at its end if it has another digest."""
        return self._counted(_BLOB + sha256, self._sizes[_BLOB + sha256], sha256)

    def lines(self, name: str) -> Iterator[bytes]:
        """A member by line, without line ends."""
        rest, count = b"", 0
        for piece in self.pieces(name):
            *whole, rest = (rest + piece).split(b"\n")
            count += len(whole)
            yield from whole
            if len(rest) > ARCHIVE_LINE_BYTES:
                raise self._bad(f"a line of {name} is longer than {ARCHIVE_LINE_BYTES // MIB} MiB")
        if rest or count != self.manifest.members[name].lines:
            raise self._bad(f"the number of lines of {name} differs from the manifest")

    def _counted(self, name: str, size: int, sha256: str) -> Iterator[bytes]:
        digest, left = hashlib.sha256(), size
        with self._suspicion(), self._zip.open(name) as member:
            while piece := member.read(_CHUNK_BYTES):
                left -= len(piece)
                if left < 0:
                    break
                digest.update(piece)
                yield piece
        if left or digest.hexdigest() != sha256:
            raise self._bad(f"{name} was changed")

    def _checked_members(self) -> dict[str, int]:
        entries = self._zip.infolist()
        if len(entries) > ARCHIVE_MEMBERS:
            raise self._bad(f"it has more than {ARCHIVE_MEMBERS} members")
        sizes: dict[str, int] = {}
        end = 0
        for entry in sorted(entries, key=lambda entry: entry.header_offset):
            if _NAME.fullmatch(entry.filename) is None or entry.filename in sizes:
                raise self._bad(f"it has an unexpected member: {entry.filename[:80]!r}")
            if entry.flag_bits & _ENCRYPTED or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise self._bad(f"{entry.filename} has an unsupported compression or encryption")
            if entry.header_offset < end:
                raise self._bad(f"{entry.filename} shares its bytes with another member")
            end = entry.header_offset + _LOCAL_HEADER_BYTES + len(entry.filename) + entry.compress_size
            sizes[entry.filename] = entry.file_size
        if sum(sizes.values()) > self._max_bytes:
            raise self._bad(f"it holds more than {self._max_bytes} bytes")
        return sizes

    def _small(self, name: str, limit: int) -> bytes:
        """A small member that the manifest does not describe."""
        if not 0 < self._sizes.get(name, 0) <= limit:
            raise self._bad(f"it has no {name.partition('.')[0]}")
        with self._suspicion(), self._zip.open(name) as member:
            return member.read(limit + 1)

    def _find_signer(self, manifest: bytes) -> VerifyKey | None:
        """The signer of the archive; `None` for the unsigned format."""
        if self.manifest.format == UNSIGNED_FORMAT:
            if SIGNATURE in self._sizes:
                raise self._bad("it has a signature, which its format does not support")
            return None
        member = self._small(SIGNATURE, ARCHIVE_SIGNATURE_BYTES)
        try:
            return signer_of(manifest, member)
        except (BadSignature, ValueError) as error:
            raise self._bad("its signature does not match its manifest: it was changed") from error

    def _read_manifest(self, text: bytes) -> Manifest:
        try:
            manifest = msgspec.json.decode(text, type=Manifest)
        except msgspec.MsgspecError as error:
            raise self._bad(f"its manifest cannot be read: {error}") from error
        if manifest.format not in (UNSIGNED_FORMAT, FORMAT):
            raise BadArchive(
                f"{self._path.name} has format {manifest.format}, which this version cannot read",
                reason="format_unknown",
                hint=f"read it with version {manifest.version}",
                version=manifest.version,
                file=self._path.name,
                format=manifest.format,
            )
        if manifest.kind != self._kind:
            raise BadArchive(
                f"{self._path.name} is the archive of a {manifest.kind}",
                reason="wrong_kind",
                hint="restore a backup with `bollard restore`; import the archive of a workspace with `bollard import`",
                kind=manifest.kind,
                file=self._path.name,
            )
        return manifest

    def _check_manifest(self) -> None:
        described = {name for name in self._sizes if not name.startswith(_BLOB) and name not in (MANIFEST, SIGNATURE)}
        if described != set(self.manifest.members) or len(self.blobs) != self.manifest.blobs:
            raise self._bad("its members differ from the manifest")
        for table in self.manifest.tables:
            names = [table.name, *(column.name for column in table.columns)]
            if not all(map(_SCHEMA_NAME.fullmatch, names)) or len({*names[1:]}) != len(names) - 1:
                raise self._bad(f"its manifest has an invalid table: {table.name[:80]!r}")
        named = {table.member for table in self.manifest.tables}
        named |= {f"keys/{name}" for name in self.manifest.keys} | {note.member for note in self.manifest.files}
        if named != described:
            raise self._bad("its manifest has unused members")

    @contextmanager
    def _suspicion(self) -> Generator[None]:
        try:
            yield
        except BadArchive:
            raise
        except OSError as error:
            raise self._unreadable(error, "check its disk") from error
        except _BROKEN as error:
            raise self._bad(f"it is broken ({type(error).__name__}: {error})") from error

    def _unreadable(self, error: OSError, hint: str) -> BadArchive:
        return BadArchive(
            f"{self._path} cannot be read: {error.strerror}",
            reason="archive_unreadable",
            hint=hint,
            path=str(self._path),
            **caused_by(error),
        )

    def _bad(self, problem: str) -> BadArchive:
        return BadArchive(
            f"{self._path.name} cannot be used: {problem}",
            reason="archive_damaged",
            hint="nothing was written; use another copy of the archive",
            path=str(self._path),
            problem=problem,
        )


def _check_directory_size(file: IO[bytes]) -> None:
    """Check the size of the list of members before Python's reader creates an object for each."""
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - _END_BYTES - _COMMENT_BYTES))
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END_BYTES:
        raise zipfile.BadZipFile("it is not a zip file")
    *_, directory_bytes, _, comment_bytes = _END.unpack_from(tail, at)
    if comment_bytes or len(tail) - at != _END_BYTES:
        raise zipfile.BadZipFile("something follows its end")
    directory_bytes = _large_directory_bytes(file, length - len(tail) + at, directory_bytes)
    if directory_bytes > ARCHIVE_DIRECTORY_BYTES:
        raise zipfile.BadZipFile("its list of members is too long")


def _large_directory_bytes(file: IO[bytes], end: int, stated: int) -> int:
    """The directory size of a 64-bit archive, from the record before its end. If that record exists, Python's reader
    uses it, so it counts here too."""
    file.seek(max(0, end - _LOCATOR.size))
    locator = file.read(min(end, _LOCATOR.size))
    if not locator.startswith(b"PK\6\7"):
        return stated
    at = end - _LOCATOR.size - _LARGE_END.size
    if at < 0 or _LOCATOR.unpack(locator)[2] != at:
        raise zipfile.BadZipFile("its end is broken")
    file.seek(at)
    mark, *_, directory_bytes, _ = _LARGE_END.unpack(file.read(_LARGE_END.size))
    if mark != b"PK\6\6":
        raise zipfile.BadZipFile("its end is broken")
    return directory_bytes

"""Reads the table of contents of a zip file: how much it says it holds, and where. Unpacks nothing.

Everything that it says is a claim. What is believed here is only what can be checked here: places that lie inside the
file and do not overlap, names that stay inside the plugin, kinds that are files and folders. How large something
really becomes is counted when it is unpacked (`unpacking`).
"""

import configparser
import os
import stat
import struct
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from bollard.host.errors import InvalidRequest, StorageFull
from bollard.host.limits import (
    KIB,
    PLUGIN_BYTES,
    PLUGIN_DIRECTORY_BYTES,
    PLUGIN_ENTRIES,
    PLUGIN_NAME_BYTES,
    PLUGIN_RATIO,
    PLUGIN_RATIO_FREE_BYTES,
)
from bollard.wire.manifest_text import MANIFEST_NAME
from bollard.wire.plugin_files import is_left_out

# Which names the files of an uploaded plugin may have: those that mean the same on every system, and stay inside.


_PART_BYTES: Final = 255
_DEPTH: Final = 32
"""Folders within folders."""
_REFUSED: Final = frozenset('\\:*?"<>|')
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{number}" for number in range(10)), *(f"lpt{number}" for number in range(10))}
)
"""What some systems take for a device, whatever its ending."""
_HINT: Final = "pack the plugin again with plain file names; `bollard plugin install FOLDER` does it for you"


def bad_archive(problem: str, *, hint: str = _HINT) -> InvalidRequest:
    """The one error of an archive that is not taken."""
    return InvalidRequest(f"the archive is not taken: {problem}", hint=hint, field="body")


def parts_of(name: str) -> tuple[str, ...]:
    """The folders and the file that a name has; the slash at the end of a folder's is not part of it."""
    shown = ascii(name[:80])
    if not name or len(name.encode("utf-8", "surrogatepass")) > PLUGIN_NAME_BYTES:
        raise bad_archive(f"a name is empty or longer than {PLUGIN_NAME_BYTES} bytes: {shown}")
    if name.startswith("/"):
        raise bad_archive(f"{shown} is an absolute path")
    if not unicodedata.is_normalized("NFC", name):
        raise bad_archive(f"{shown} is not in Unicode form NFC, so an equal looking name would not be equal")
    parts = tuple(name.removesuffix("/").split("/"))
    if len(parts) > _DEPTH:
        raise bad_archive(f"{shown} is more than {_DEPTH} folders deep")
    for part in parts:
        if problem := _wrong_with(part):
            raise bad_archive(f"{shown} {problem}")
    return parts


def _wrong_with(part: str) -> str | None:
    if part in ("", ".", ".."):
        return "has an empty part, '.' or '..'"
    if len(part.encode("utf-8", "surrogatepass")) > _PART_BYTES:
        return f"has a part longer than {_PART_BYTES} bytes"
    if part[-1] in ". ":
        return "has a part that ends with a dot or a blank"
    if part.partition(".")[0].rstrip().lower() in _DEVICES:
        return "is the name of a device on some systems"
    for character in part:
        if character in _REFUSED or unicodedata.category(character) in _INVISIBLE:
            return f"has the character U+{ord(character):04X}"
    return None


def check_collisions(entries: Iterable[tuple[tuple[str, ...], bool]]) -> None:
    """Refuse two entries that would be one on a system that does not tell case apart, and a file that is a folder.

    Each entry is its parts, and whether it is a folder.
    """
    files: set[tuple[str, ...]] = set()
    folders: dict[tuple[str, ...], tuple[str, ...]] = {}
    named: set[tuple[str, ...]] = set()
    for parts, is_folder in entries:
        folded = tuple(unicodedata.normalize("NFKC", part).casefold() for part in parts)
        if folded in named:
            raise bad_archive(f"two entries are called {'/'.join(parts)!a}, as far as some systems can tell")
        named.add(folded)
        for depth in range(1, len(parts) + is_folder):
            before = folders.setdefault(folded[:depth], parts[:depth])
            if before != parts[:depth]:
                raise bad_archive(f"two folders are called {'/'.join(parts[:depth])!a}, but for their case")
        if not is_folder:
            files.add(folded)
    if both := files & folders.keys():
        raise bad_archive(f"{'/'.join(min(both))!a} is a file and a folder")


_END: Final = struct.Struct("<4s4H2LH")
_END_MARK: Final = b"PK\x05\x06"
_ENTRY: Final = struct.Struct("<4s4B4HL2L5H2L")
_ENTRY_MARK: Final = b"PK\x01\x02"
_LOCAL: Final = struct.Struct("<4s2B4HL2L2H")
_LOCAL_MARK: Final = b"PK\x03\x04"
_COMMENT_BYTES: Final = 0xFFFF
_WIDE: Final = 0xFFFFFFFF
"""What a field says whose value is elsewhere, because it is too large: nothing here may be that large."""
_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000
_UTF8: Final = 0x800
_STORED: Final = 0
_DEFLATED: Final = 8
_UNIX: Final = 3


class ArchiveEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One file or folder, as the table says."""

    parts: tuple[str, ...]
    is_folder: bool
    deflated: bool
    packed: int
    """Bytes in the archive."""
    size: int
    """Bytes that it says it becomes."""
    crc: int
    data_at: int
    starts_at: int

    @property
    def name(self) -> str:
        return "/".join(self.parts)


def read_archive(file: BinaryIO) -> list[ArchiveEntry]:
    """The entries of a zip file, each checked, none overlapping another. Raises `InvalidRequest`."""
    length = file.seek(0, os.SEEK_END)
    table_at, table = _read_table(file, length)
    entries = [_located(file, raw, table_at) for raw in _split(table)]
    check_collisions((entry.parts, entry.is_folder) for entry in entries)
    _check_overlaps(entries)
    if sum(entry.size for entry in entries) > PLUGIN_BYTES:
        raise bad_archive(f"its files are larger than {PLUGIN_BYTES} bytes together", hint="leave out large files")
    return entries


def _read_table(file: BinaryIO, length: int) -> tuple[int, bytes]:
    tail_at = max(0, length - _END.size - _COMMENT_BYTES)
    file.seek(tail_at)
    tail = file.read(length - tail_at)
    at = tail.rfind(_END_MARK)
    while at >= 0:
        if at + _END.size <= len(tail):
            fields = _END.unpack_from(tail, at)
            if at + _END.size + fields[7] == len(tail):
                return _table_of(file, fields, tail_at + at)
        at = tail.rfind(_END_MARK, 0, at)
    raise bad_archive("it is not a zip file", hint="send a .zip or a .whl; other formats are not unpacked")


def _table_of(file: BinaryIO, fields: tuple[Any, ...], end_at: int) -> tuple[int, bytes]:
    _, disk, table_disk, here, count, size, at, _ = fields
    if disk or table_disk or here != count:
        raise bad_archive("it is one part of several")
    if count > PLUGIN_ENTRIES:
        raise bad_archive(f"it has {count} entries", hint=f"a plugin has at most {PLUGIN_ENTRIES} files and folders")
    if size > PLUGIN_DIRECTORY_BYTES or at == _WIDE:
        raise bad_archive(f"its table of contents is larger than {PLUGIN_DIRECTORY_BYTES} bytes")
    if at + size != end_at:
        raise bad_archive("its table of contents is not where it says")
    file.seek(at)
    return at, _with_count(file.read(size), count)


def _with_count(table: bytes, count: int) -> bytes:
    """The table, when it holds as many entries as was said: no fewer, and no more."""
    found, at = 0, 0
    while at + _ENTRY.size <= len(table) and table.startswith(_ENTRY_MARK, at) and found <= PLUGIN_ENTRIES:
        name, extra, comment = struct.unpack_from("<3H", table, at + 28)
        at += _ENTRY.size + name + extra + comment
        found += 1
    if at != len(table) or found != count:
        raise bad_archive("its table of contents does not hold what it says")
    return table


def _split(table: bytes) -> list[tuple[tuple[int, ...], bytes]]:
    found: list[tuple[tuple[int, ...], bytes]] = []
    at = 0
    while at < len(table):
        fields = _ENTRY.unpack_from(table, at)[1:]
        name, extra, comment = fields[11], fields[12], fields[13]
        start = at + _ENTRY.size
        found.append((fields, table[start : start + name]))
        at = start + name + extra + comment
    return found


def _located(file: BinaryIO, raw: tuple[tuple[int, ...], bytes], table_at: int) -> ArchiveEntry:
    fields, name_bytes = raw
    _, system, _, _, flags, method, _, _, crc, packed, size = fields[:11]
    attributes, starts_at = fields[16], fields[17]
    parts, is_folder = _named(name_bytes, flags)
    shown = ascii("/".join(parts))
    if flags & _ENCRYPTED:
        raise bad_archive(f"{shown} is encrypted")
    if method not in (_STORED, _DEFLATED):
        raise bad_archive(f"{shown} is packed in a way that is not known here ({method})")
    if _WIDE in (packed, size, starts_at):
        raise bad_archive(f"{shown} says that it is larger than anything may be")
    if size > PLUGIN_BYTES:
        raise bad_archive(f"{shown} is larger than {PLUGIN_BYTES} bytes", hint="leave out large files")
    _check_kind(shown, attributes >> 16 if system == _UNIX else 0, is_folder=is_folder)
    if is_folder and (packed or size):
        raise bad_archive(f"{shown} is a folder with content")
    data_at = _data_place(file, starts_at, name_bytes, (flags, method), shown)
    if data_at + packed > table_at:
        raise bad_archive(f"{shown} lies outside of the archive's files")
    return ArchiveEntry(
        parts=parts,
        is_folder=is_folder,
        deflated=method == _DEFLATED,
        packed=packed,
        size=size,
        crc=crc,
        data_at=data_at,
        starts_at=starts_at,
    )


def _named(name: bytes, flags: int) -> tuple[tuple[str, ...], bool]:
    try:
        text = name.decode("utf-8" if flags & _UTF8 else "ascii")
    except UnicodeDecodeError as error:
        raise bad_archive(f"the name {name[:80]!a} is not UTF-8") from error
    return parts_of(text), text.endswith("/")


def _check_kind(shown: str, mode: int, *, is_folder: bool) -> None:
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFLNK:
        raise bad_archive(f"{shown} is a link", hint="put the file itself there")
    if kind not in (0, stat.S_IFDIR if is_folder else stat.S_IFREG):
        raise bad_archive(f"{shown} is neither a file nor a folder")


def _data_place(file: BinaryIO, starts_at: int, name: bytes, said: tuple[int, int], shown: str) -> int:
    """Where the content begins: behind a header of its own, which must be that of this entry."""
    file.seek(starts_at)
    header = file.read(_LOCAL.size)
    if len(header) < _LOCAL.size or not header.startswith(_LOCAL_MARK):
        raise bad_archive(f"{shown} is not where the table of contents says")
    fields = _LOCAL.unpack(header)
    if file.read(fields[10]) != name or (fields[3] & ~0x8, fields[4]) != (said[0] & ~0x8, said[1]):
        raise bad_archive(f"{shown} is called otherwise in the table of contents")
    return starts_at + _LOCAL.size + fields[10] + fields[11]


def _check_overlaps(entries: list[ArchiveEntry]) -> None:
    """Entries that share bytes make a small file large without any of them being it."""
    for before, entry in pairwise(sorted(entries, key=lambda entry: (entry.starts_at, entry.data_at))):
        if before.data_at + before.packed > entry.starts_at:
            raise bad_archive(f"{before.name!a} and {entry.name!a} overlap")


# Unpacks a zip file into a folder, piece by piece, and counts what really comes out. Trusts no size that it is told.
#
# A plugin holds files and folders; what is hidden or left behind by tools is no part of it and is not written.


_PIECE: Final = 64 * KIB


def unpack(file: BinaryIO, into: Path) -> None:
    """Write the files of a zip into an empty folder. Raises `InvalidRequest` or `StorageFull`; what was written until
    then is the caller's to remove."""
    entries = [entry for entry in read_archive(file) if not any(is_left_out(part) for part in entry.parts)]
    if not any(not entry.is_folder for entry in entries):
        raise bad_archive("there is no file in it", hint="pack the plugin's folder: manifest.yaml and its modules")
    total = 0
    for entry in entries:
        place = into.joinpath(*entry.parts)
        try:
            if entry.is_folder:
                place.mkdir(parents=True, exist_ok=True)
            else:
                total += _write(file, entry, place, PLUGIN_BYTES - total)
        except OSError as error:
            raise StorageFull(f"{entry.name} cannot be unpacked: {error.strerror}", hint="free some space") from error


def _write(file: BinaryIO, entry: ArchiveEntry, place: Path, room: int) -> int:
    place.parent.mkdir(parents=True, exist_ok=True)
    size, crc = 0, 0
    descriptor = write_new(place)
    with os.fdopen(descriptor, "wb") as out:
        for piece in _contents(file, entry):
            size += len(piece)
            if size > entry.size:
                raise bad_archive(f"{entry.name!a} is larger than it says")
            if size > room:
                raise bad_archive(f"its files are larger than {PLUGIN_BYTES} bytes together")
            if size > PLUGIN_RATIO_FREE_BYTES and size > PLUGIN_RATIO * entry.packed:
                raise bad_archive(f"{entry.name!a} becomes more than {PLUGIN_RATIO} times as large")
            crc = zlib.crc32(piece, crc)
            out.write(piece)
    if size != entry.size or crc != entry.crc:
        raise bad_archive(f"{entry.name!a} is damaged: its size or checksum is not what it says")
    return size


def write_new(place: Path) -> int:
    """A descriptor for a file that was not there: never one that something else put in its place, and never a link."""
    return os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _contents(file: BinaryIO, entry: ArchiveEntry) -> Iterator[bytes]:
    """The content in pieces of a bounded size, whatever the packed bytes say."""
    packed = _packed(file, entry)
    return _inflated(packed, entry) if entry.deflated else packed


def _packed(file: BinaryIO, entry: ArchiveEntry) -> Iterator[bytes]:
    left = entry.packed
    file.seek(entry.data_at)
    while left > 0:
        piece = file.read(min(_PIECE, left))
        if not piece:
            raise bad_archive(f"{entry.name!a} is cut off")
        left -= len(piece)
        yield piece


def _inflated(packed: Iterator[bytes], entry: ArchiveEntry) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        for piece in packed:
            rest = piece
            while rest:
                if unpacker.eof:
                    raise bad_archive(f"{entry.name!a} has something behind its end")
                yield unpacker.decompress(rest, _PIECE)
                rest = unpacker.unconsumed_tail or unpacker.unused_data
        while not unpacker.eof and (held := unpacker.decompress(b"", _PIECE)):
            yield held
    except zlib.error as error:
        raise bad_archive(f"{entry.name!a} is damaged: {error}") from error
    if not unpacker.eof:
        raise bad_archive(f"{entry.name!a} is damaged: it does not end")


# Where the plugin is in what was unpacked: at the top, in the one folder there is, or where a wheel says it.
#
# A wheel says it with an entry point of the group `bollard.plugins`, whose value is the module that is the plugin's
# folder: `parrot = acme_parrot`.


ENTRY_POINTS: Final = "bollard.plugins"
"""The group of entry points by which a Python package says that it holds a plugin."""
_ENTRY_POINTS_BYTES: Final = 64 * KIB


def find_root(unpacked: Path) -> Path:
    """The plugin's folder or file. Raises `InvalidRequest`."""
    if (unpacked / MANIFEST_NAME).is_file():
        return unpacked
    said = sorted(unpacked.glob("*.dist-info/entry_points.txt"))
    if said:
        return _in_wheel(unpacked, said[0])
    inside = list(unpacked.iterdir())
    if len(inside) == 1:
        only = inside[0]
        if only.is_dir() and (only / MANIFEST_NAME).is_file():
            return only
        if only.is_file() and only.suffix == ".py":
            return only
    hint = "a plugin is a folder with manifest.yaml at its top, or one Python file"
    raise bad_archive("there is no plugin at its top", hint=hint)


def _in_wheel(unpacked: Path, said: Path) -> Path:
    points = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=True)
    try:
        if said.stat().st_size > _ENTRY_POINTS_BYTES:
            raise bad_archive(f"its entry points are larger than {_ENTRY_POINTS_BYTES} bytes")
        points.read_string(said.read_text(encoding="utf-8"))
        found = dict(points[ENTRY_POINTS]) if points.has_section(ENTRY_POINTS) else {}
    except (configparser.Error, UnicodeDecodeError) as error:
        raise bad_archive("its entry points cannot be read") from error
    folder = unpacked.joinpath(*one_module(found).split("."))
    if not (folder / MANIFEST_NAME).is_file():
        raise bad_archive(f"its entry point names {folder.name}, where there is no {MANIFEST_NAME}")
    return folder


def one_module(points: Mapping[str, str]) -> str:
    """The module that the one entry point of a package names. Raises `InvalidRequest`."""
    modules = {value.partition(":")[0].strip() for value in points.values()}
    if len(modules) != 1:
        raise InvalidRequest(
            f"the package has {len(modules)} entry points of the group {ENTRY_POINTS}",
            hint=f"it needs one, whose value is the module with {MANIFEST_NAME}",
            field="package",
        )
    module = modules.pop()
    if not all(part.isidentifier() for part in module.split(".")):
        raise InvalidRequest(f"the entry point {module[:80]!a} is no module", hint="name a module", field="package")
    return module

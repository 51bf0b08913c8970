"""Reads and unpacks an uploaded plugin archive (zip or wheel), and finds the plugin in it.

The central directory of a zip is untrusted. `read_archive` accepts an entry only if its bytes lie inside the file and
overlap no other entry, its name stays inside the plugin, and it is a file or a folder. `unpack` counts the real size
of each file and trusts no declared size.
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

from bollard.host.errors import InvalidRequest, StorageFull, caused_by
from bollard.host.limits import (
    KIB,
    PLUGIN_BYTES,
    PLUGIN_DIRECTORY_BYTES,
    PLUGIN_ENTRIES,
    PLUGIN_NAME_BYTES,
    PLUGIN_RATIO,
    PLUGIN_RATIO_FREE_BYTES,
)
from bollard.manifest.text import MANIFEST_NAME
from bollard.wire.plugin_files import is_left_out

# --- file names: portable, and inside the plugin ---

_PART_BYTES: Final = 255
_DEPTH: Final = 32
_REFUSED: Final = frozenset('\\:*?"<>|')
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{number}" for number in range(10)), *(f"lpt{number}" for number in range(10))}
)
"""Reserved device names on Windows, with any extension."""
_HINT: Final = "pack the plugin again with plain file names; `bollard plugin install FOLDER` does it for you"
_LARGE: Final = "leave out large files"


def _rejected(reason: str, problem: str, /, *, hint: str = _HINT, **details: str | int) -> InvalidRequest:
    return InvalidRequest(
        f"the archive is rejected: {problem}", reason=f"archive_{reason}", hint=hint, field="body", **details
    )


def split_name(name: str) -> tuple[str, ...]:
    """The path components of an entry's name. Raises `InvalidRequest` for a name that is not portable."""
    entry = ascii(name[:80])
    if not name or len(name.encode("utf-8", "surrogatepass")) > PLUGIN_NAME_BYTES:
        problem = f"the name {entry} is empty or longer than {PLUGIN_NAME_BYTES} bytes"
        raise _rejected("name_length", problem, entry=entry, limit=PLUGIN_NAME_BYTES)
    if name.startswith("/"):
        raise _rejected("absolute_path", f"{entry} is an absolute path", entry=entry)
    if not unicodedata.is_normalized("NFC", name):
        raise _rejected("not_nfc", f"the name {entry} is not in Unicode normal form NFC", entry=entry)
    parts = tuple(name.removesuffix("/").split("/"))
    if len(parts) > _DEPTH:
        raise _rejected("too_deep", f"{entry} is more than {_DEPTH} folders deep", entry=entry, limit=_DEPTH)
    for part in parts:
        _check_part(part, entry)
    return parts


def _check_part(part: str, entry: str) -> None:
    if part in ("", ".", ".."):
        raise _rejected("dot_component", f"{entry} has a component that is empty, '.' or '..'", entry=entry)
    if len(part.encode("utf-8", "surrogatepass")) > _PART_BYTES:
        problem = f"{entry} has a component longer than {_PART_BYTES} bytes"
        raise _rejected("component_length", problem, entry=entry, limit=_PART_BYTES)
    if part[-1] in ". ":
        raise _rejected("trailing_dot", f"{entry} has a component that ends with a dot or a space", entry=entry)
    if part.partition(".")[0].rstrip().lower() in _DEVICES:
        raise _rejected("device_name", f"{entry} is the name of a device on some systems", entry=entry)
    for character in part:
        if character in _REFUSED or unicodedata.category(character) in _INVISIBLE:
            code_point = f"U+{ord(character):04X}"
            problem = f"{entry} contains the character {code_point}"
            raise _rejected("character", problem, entry=entry, character=code_point)


def check_collisions(entries: Iterable[tuple[tuple[str, ...], bool]]) -> None:
    """Refuse names that are equal on a case-insensitive file system, and a name that is both a file and a folder.

    Each entry is its path components, and whether it is a folder.
    """
    files: set[tuple[str, ...]] = set()
    folders: dict[tuple[str, ...], tuple[str, ...]] = {}
    seen: set[tuple[str, ...]] = set()
    for parts, is_folder in entries:
        folded = tuple(unicodedata.normalize("NFKC", part).casefold() for part in parts)
        if folded in seen:
            entry = ascii("/".join(parts))
            raise _rejected("same_name", f"two entries have the name {entry} (case is ignored)", entry=entry)
        seen.add(folded)
        for depth in range(1, len(parts) + is_folder):
            before = folders.setdefault(folded[:depth], parts[:depth])
            if before != parts[:depth]:
                entry = ascii("/".join(parts[:depth]))
                raise _rejected("same_folder", f"two folders have the name {entry} and differ in case", entry=entry)
        if not is_folder:
            files.add(folded)
    if both := files & folders.keys():
        entry = ascii("/".join(min(both)))
        raise _rejected("file_and_folder", f"{entry} is both a file and a folder", entry=entry)


# --- the central directory ---

_END: Final = struct.Struct("<4s4H2LH")
_END_MARK: Final = b"PK\x05\x06"
_ENTRY: Final = struct.Struct("<4s4B4HL2L5H2L")
_ENTRY_MARK: Final = b"PK\x01\x02"
_LOCAL: Final = struct.Struct("<4s2B4HL2L2H")
_LOCAL_MARK: Final = b"PK\x03\x04"
_COMMENT_BYTES: Final = 0xFFFF
_WIDE: Final = 0xFFFFFFFF
"""Marks a ZIP64 value; no entry of a plugin may be that large."""
_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000
_UTF8: Final = 0x800
_STORED: Final = 0
_DEFLATED: Final = 8
_UNIX: Final = 3


class ArchiveEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One file or folder, as the central directory declares it."""

    parts: tuple[str, ...]
    is_folder: bool
    deflated: bool
    packed: int
    """Compressed bytes in the archive."""
    size: int
    """Declared size after unpacking, in bytes."""
    crc: int
    data_at: int
    starts_at: int

    @property
    def name(self) -> str:
        return "/".join(self.parts)


def read_archive(file: BinaryIO) -> list[ArchiveEntry]:
    """The checked entries of a zip file. Raises `InvalidRequest`."""
    length = file.seek(0, os.SEEK_END)
    table_at, table = _read_table(file, length)
    entries = [_read_entry(file, raw, table_at) for raw in _split(table)]
    check_collisions((entry.parts, entry.is_folder) for entry in entries)
    _check_overlaps(entries)
    if sum(entry.size for entry in entries) > PLUGIN_BYTES:
        raise _total_too_large()
    return entries


def _total_too_large() -> InvalidRequest:
    problem = f"its files are larger than {PLUGIN_BYTES} bytes in total"
    return _rejected("total_size", problem, hint=_LARGE, limit=PLUGIN_BYTES)


def _read_table(file: BinaryIO, length: int) -> tuple[int, bytes]:
    tail_at = max(0, length - _END.size - _COMMENT_BYTES)
    file.seek(tail_at)
    tail = file.read(length - tail_at)
    at = tail.rfind(_END_MARK)
    while at >= 0:
        if at + _END.size <= len(tail):
            fields = _END.unpack_from(tail, at)
            if at + _END.size + fields[7] == len(tail):
                return _load_table(file, fields, tail_at + at)
        at = tail.rfind(_END_MARK, 0, at)
    raise _rejected("not_zip", "it is not a zip file", hint="send a .zip or a .whl file")


def _load_table(file: BinaryIO, fields: tuple[Any, ...], end_at: int) -> tuple[int, bytes]:
    _, disk, table_disk, here, count, size, at, _ = fields
    if disk or table_disk or here != count:
        raise _rejected("split", "it is one part of a split archive")
    if count > PLUGIN_ENTRIES:
        hint = f"a plugin has at most {PLUGIN_ENTRIES} files and folders"
        raise _rejected("entries", f"it has {count} entries", hint=hint, count=count, limit=PLUGIN_ENTRIES)
    if size > PLUGIN_DIRECTORY_BYTES or at == _WIDE:
        problem = f"its central directory is larger than {PLUGIN_DIRECTORY_BYTES} bytes"
        raise _rejected("directory_size", problem, limit=PLUGIN_DIRECTORY_BYTES)
    if at + size != end_at:
        raise _rejected("directory_offset", "its central directory is not at the declared offset")
    file.seek(at)
    table = file.read(size)
    _check_count(table, count)
    return at, table


def _check_count(table: bytes, count: int) -> None:
    actual, at = 0, 0
    while at + _ENTRY.size <= len(table) and table.startswith(_ENTRY_MARK, at) and actual <= PLUGIN_ENTRIES:
        name, extra, comment = struct.unpack_from("<3H", table, at + 28)
        at += _ENTRY.size + name + extra + comment
        actual += 1
    if at != len(table) or actual != count:
        raise _rejected("directory_count", "its central directory does not hold the declared number of entries")


def _split(table: bytes) -> list[tuple[tuple[int, ...], bytes]]:
    entries: list[tuple[tuple[int, ...], bytes]] = []
    at = 0
    while at < len(table):
        fields = _ENTRY.unpack_from(table, at)[1:]
        name, extra, comment = fields[11], fields[12], fields[13]
        start = at + _ENTRY.size
        entries.append((fields, table[start : start + name]))
        at = start + name + extra + comment
    return entries


def _read_entry(file: BinaryIO, raw: tuple[tuple[int, ...], bytes], table_at: int) -> ArchiveEntry:
    fields, name_bytes = raw
    _, system, _, _, flags, method, _, _, crc, packed, size = fields[:11]
    attributes, starts_at = fields[16], fields[17]
    parts, is_folder = _decode_name(name_bytes, flags)
    entry = ascii("/".join(parts))
    if flags & _ENCRYPTED:
        raise _rejected("encrypted", f"{entry} is encrypted", entry=entry)
    if method not in (_STORED, _DEFLATED):
        problem = f"{entry} uses the unsupported compression method {method}"
        raise _rejected("compression", problem, entry=entry, method=method)
    if _WIDE in (packed, size, starts_at) or size > PLUGIN_BYTES:
        problem = f"{entry} is larger than {PLUGIN_BYTES} bytes"
        raise _rejected("entry_size", problem, hint=_LARGE, entry=entry, limit=PLUGIN_BYTES)
    _check_kind(entry, attributes >> 16 if system == _UNIX else 0, is_folder=is_folder)
    if is_folder and (packed or size):
        raise _rejected("folder_content", f"the folder {entry} has content", entry=entry)
    data_at = _data_offset(file, starts_at, name_bytes, (flags, method), entry)
    if data_at + packed > table_at:
        raise _rejected("outside", f"the data of {entry} lies outside the archive's data section", entry=entry)
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


def _decode_name(name: bytes, flags: int) -> tuple[tuple[str, ...], bool]:
    try:
        text = name.decode("utf-8" if flags & _UTF8 else "ascii")
    except UnicodeDecodeError as error:
        entry = ascii(name[:80])
        raise _rejected("not_utf8", f"the name {entry} is not UTF-8", entry=entry) from error
    return split_name(text), text.endswith("/")


def _check_kind(entry: str, mode: int, *, is_folder: bool) -> None:
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFLNK:
        raise _rejected("link", f"{entry} is a link", hint="replace the link with the file itself", entry=entry)
    if kind not in (0, stat.S_IFDIR if is_folder else stat.S_IFREG):
        raise _rejected("kind", f"{entry} is neither a file nor a folder", entry=entry)


def _data_offset(file: BinaryIO, starts_at: int, name: bytes, declared: tuple[int, int], entry: str) -> int:
    """The offset of the content, behind the local header. The local header must match the central directory."""
    file.seek(starts_at)
    header = file.read(_LOCAL.size)
    if len(header) < _LOCAL.size or not header.startswith(_LOCAL_MARK):
        raise _rejected("header_offset", f"{entry} is not at the declared offset", entry=entry)
    fields = _LOCAL.unpack(header)
    if file.read(fields[10]) != name or (fields[3] & ~0x8, fields[4]) != (declared[0] & ~0x8, declared[1]):
        raise _rejected("header_mismatch", f"{entry} differs from its local header", entry=entry)
    return starts_at + _LOCAL.size + fields[10] + fields[11]


def _check_overlaps(entries: list[ArchiveEntry]) -> None:
    """Refuse entries that share bytes: with those a small archive unpacks to a large plugin (zip bomb)."""
    for before, entry in pairwise(sorted(entries, key=lambda entry: (entry.starts_at, entry.data_at))):
        if before.data_at + before.packed > entry.starts_at:
            first, second = ascii(before.name), ascii(entry.name)
            raise _rejected("overlap", f"{first} and {second} overlap", entry=first, other=second)


# --- unpacking ---

_PIECE: Final = 64 * KIB


def unpack(file: BinaryIO, into: Path) -> None:
    """Write the files of a zip into an empty folder, without hidden files and leftovers of tools. Raises
    `InvalidRequest` or `StorageFull`; the caller removes a partial result."""
    entries = [entry for entry in read_archive(file) if not any(is_left_out(part) for part in entry.parts)]
    if not any(not entry.is_folder for entry in entries):
        raise _rejected("empty", "it has no files", hint="pack the plugin's folder: manifest.yaml and its modules")
    total = 0
    for entry in entries:
        path = into.joinpath(*entry.parts)
        try:
            if entry.is_folder:
                path.mkdir(parents=True, exist_ok=True)
            else:
                total += _write(file, entry, path, PLUGIN_BYTES - total)
        except OSError as error:
            raise StorageFull(
                f"{entry.name} cannot be unpacked: {error.strerror}",
                reason="archive_unpack",
                hint="free disk space",
                entry=entry.name,
                **caused_by(error),
            ) from error


def _write(file: BinaryIO, entry: ArchiveEntry, path: Path, room: int) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    size, crc, name = 0, 0, ascii(entry.name)
    descriptor = write_new(path)
    with os.fdopen(descriptor, "wb") as out:
        for piece in _contents(file, entry):
            size += len(piece)
            if size > entry.size:
                raise _rejected("declared_size", f"{name} is larger than its declared size", entry=name)
            if size > room:
                raise _total_too_large()
            if size > PLUGIN_RATIO_FREE_BYTES and size > PLUGIN_RATIO * entry.packed:
                problem = f"{name} unpacks to more than {PLUGIN_RATIO} times its compressed size"
                raise _rejected("ratio", problem, entry=name, limit=PLUGIN_RATIO)
            crc = zlib.crc32(piece, crc)
            out.write(piece)
    if size != entry.size or crc != entry.crc:
        raise _damaged(entry, "its size or checksum does not match")
    return size


def _damaged(entry: ArchiveEntry, problem: str) -> InvalidRequest:
    name = ascii(entry.name)
    return _rejected("damaged", f"{name} is damaged: {problem}", entry=name, problem=problem)


def write_new(path: Path) -> int:
    """A descriptor for a new file. Fails if the path exists, also as a link."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _contents(file: BinaryIO, entry: ArchiveEntry) -> Iterator[bytes]:
    """The unpacked content in pieces of bounded size."""
    packed = _read_packed(file, entry)
    return _inflate(packed, entry) if entry.deflated else packed


def _read_packed(file: BinaryIO, entry: ArchiveEntry) -> Iterator[bytes]:
    left = entry.packed
    file.seek(entry.data_at)
    while left > 0:
        piece = file.read(min(_PIECE, left))
        if not piece:
            raise _damaged(entry, "the archive ends before it")
        left -= len(piece)
        yield piece


def _inflate(packed: Iterator[bytes], entry: ArchiveEntry) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        for piece in packed:
            rest = piece
            while rest:
                if unpacker.eof:
                    raise _damaged(entry, "bytes follow the end of its data")
                yield unpacker.decompress(rest, _PIECE)
                rest = unpacker.unconsumed_tail or unpacker.unused_data
        while not unpacker.eof and (piece := unpacker.decompress(b"", _PIECE)):
            yield piece
    except zlib.error as error:
        raise _damaged(entry, str(error)) from error
    if not unpacker.eof:
        raise _damaged(entry, "its data is incomplete")


# --- the plugin in an unpacked archive ---

ENTRY_POINTS: Final = "bollard.plugins"
"""Entry point group of a Python package with a plugin. The value is the module that is the plugin's folder:
`parrot = acme_parrot`."""
_ENTRY_POINTS_BYTES: Final = 64 * KIB


def find_root(unpacked: Path) -> Path:
    """The plugin's folder or file: the top, the only folder or file there, or the module a wheel's entry point names.
    Raises `InvalidRequest`."""
    if (unpacked / MANIFEST_NAME).is_file():
        return unpacked
    entry_points = sorted(unpacked.glob("*.dist-info/entry_points.txt"))
    if entry_points:
        return _find_in_wheel(unpacked, entry_points[0])
    inside = list(unpacked.iterdir())
    if len(inside) == 1:
        only = inside[0]
        if only.is_dir() and (only / MANIFEST_NAME).is_file():
            return only
        if only.is_file() and only.suffix == ".py":
            return only
    hint = "a plugin is a folder with manifest.yaml at its top, or one Python file"
    raise _rejected("no_plugin", "there is no plugin at its top", hint=hint)


def _find_in_wheel(unpacked: Path, entry_points: Path) -> Path:
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=True)
    try:
        if entry_points.stat().st_size > _ENTRY_POINTS_BYTES:
            problem = f"its entry_points.txt is larger than {_ENTRY_POINTS_BYTES} bytes"
            raise _rejected("entry_points_size", problem, limit=_ENTRY_POINTS_BYTES)
        parser.read_string(entry_points.read_text(encoding="utf-8"))
        points = dict(parser[ENTRY_POINTS]) if parser.has_section(ENTRY_POINTS) else {}
    except (configparser.Error, UnicodeDecodeError) as error:
        raise _rejected("entry_points", "its entry_points.txt cannot be read") from error
    folder = unpacked.joinpath(*plugin_module(points).split("."))
    if not (folder / MANIFEST_NAME).is_file():
        problem = f"its entry point names {folder.name}, which has no {MANIFEST_NAME}"
        raise _rejected("entry_point_manifest", problem, module=folder.name)
    return folder


def plugin_module(points: Mapping[str, str]) -> str:
    """The module of a package's single plugin entry point. Raises `InvalidRequest`."""
    modules = {value.partition(":")[0].strip() for value in points.values()}
    if len(modules) != 1:
        raise InvalidRequest(
            f"the package has {len(modules)} entry points in the group {ENTRY_POINTS}",
            reason="package_entry_points",
            hint=f"declare one, whose value is the module with {MANIFEST_NAME}",
            field="package",
            count=len(modules),
        )
    module = modules.pop()
    if not all(part.isidentifier() for part in module.split(".")):
        name = ascii(module[:80])
        raise InvalidRequest(
            f"the entry point {name} is not a module",
            reason="package_entry_point",
            hint="name a module",
            field="package",
            module=name,
        )
    return module

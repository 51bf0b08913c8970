"""Reads the table of contents of a zip file: how much it says it holds, and where. Unpacks nothing.

Everything that it says is a claim. What is believed here is only what can be checked here: places that lie inside the
file and do not overlap, names that stay inside the plugin, kinds that are files and folders. How large something
really becomes is counted when it is unpacked (`unpacking`).
"""

import os
import stat
import struct
from itertools import pairwise
from typing import Any, BinaryIO, Final

import msgspec

from bollard.host.limits import PLUGIN_BYTES, PLUGIN_DIRECTORY_BYTES, PLUGIN_ENTRIES
from bollard.host.plugins.archive_names import bad_archive, check_collisions, parts_of

__all__ = ["ArchiveEntry", "read_archive"]

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

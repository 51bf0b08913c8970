"""Unpacks a zip file into a folder, piece by piece, and counts what really comes out. Trusts no size that it is told.

A plugin holds files and folders; what is hidden or left behind by tools is no part of it and is not written.
"""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from bollard.host.errors import StorageFull
from bollard.host.limits import KIB, PLUGIN_BYTES, PLUGIN_RATIO, PLUGIN_RATIO_FREE_BYTES
from bollard.host.plugins.archive import ArchiveEntry, read_archive
from bollard.host.plugins.archive_names import bad_archive
from bollard.wire.plugin_files import is_left_out

__all__ = ["unpack", "write_new"]

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

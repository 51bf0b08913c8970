"""Which names the files of an uploaded plugin may have: those that mean the same on every system, and stay inside."""

import unicodedata
from collections.abc import Iterable
from typing import Final

from bollard.host.errors import InvalidRequest
from bollard.host.limits import PLUGIN_NAME_BYTES

__all__ = ["bad_archive", "check_collisions", "parts_of"]

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

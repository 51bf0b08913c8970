"""The files of a data directory beside its database and its contents: which a copy takes, and how they come back."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from bollard.host.errors import BadArchive, StorageUnavailable
from bollard.host.limits import ARCHIVE_FILES, ARCHIVE_KEY_BYTES
from bollard.trust import KeyFileError, make_folder, sync_folder
from bollard.trust.keys import load_or_make_signing_key

__all__ = [
    "HEADS_KEY",
    "KEPT_FOLDERS",
    "files_below",
    "key_files",
    "place_of",
    "public_keys",
    "read_small",
    "write_file",
    "write_public_keys",
]

HEADS_KEY: Final = "heads.ed25519"
KEPT_FOLDERS: Final = ("plugins", "skills", "knowledge")
"""Folders whose files a backup takes along."""
_NEVER_COPIED: Final = frozenset({"cursors.secret"})
"""A restored store begins with a new one: a cursor of a time that never was must not open anything."""
_KEY_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_PUBLIC: Final = ".pub"


def key_files(data: Path) -> list[Path]:
    """The key files that a backup with keys takes along."""
    folder = data / "keys"
    if not folder.is_dir():
        return []
    return [
        path
        for path in sorted(folder.iterdir())
        if path.is_file()
        and not path.is_symlink()
        and _KEY_NAME.fullmatch(path.name)
        and path.name not in _NEVER_COPIED
        and path.suffix not in (_PUBLIC, ".new")
    ]


def public_keys(data: Path) -> dict[str, str]:
    """The public halves of the keys that signed heads here, by id: this host's, and those of before a restore."""
    found: dict[str, str] = {}
    folder = data / "keys"
    if (folder / HEADS_KEY).is_file():
        try:
            key = load_or_make_signing_key(folder / HEADS_KEY).verify_key
        except KeyFileError as error:
            raise StorageUnavailable(f"the signing key cannot be used: {error.problem}", hint=error.hint) from error
        found[key.key_id] = key.public.hex()
    for path in sorted(folder.glob(f"heads.*{_PUBLIC}")):
        found.setdefault(path.name.split(".")[1], path.read_text(encoding="ascii").strip())
    return found


def write_public_keys(data: Path, keys: dict[str, str]) -> None:
    """So that what an earlier key signed can still be verified."""
    for key_id, public in keys.items():
        if re.fullmatch(r"[0-9a-f]{16}", key_id) is None or re.fullmatch(r"[0-9a-f]{64}", public) is None:
            raise BadArchive("the archive names a key that is none", hint="take another copy of it")
        write_file(data / "keys" / f"heads.{key_id}{_PUBLIC}", [public.encode() + b"\n"])


def read_small(path: Path) -> bytes:
    """A key file; raises `StorageUnavailable` when it cannot be read or is none."""
    try:
        with path.open("rb") as file:
            content = file.read(ARCHIVE_KEY_BYTES + 1)
    except OSError as error:
        hint = "run as the user who owns the data directory"
        raise StorageUnavailable(f"{path.name} cannot be read: {error.strerror}", hint=hint) from error
    if len(content) > ARCHIVE_KEY_BYTES:
        raise StorageUnavailable(f"{path.name} is no key file", hint="move it out of the keys folder")
    return content


def files_below(data: Path, folders: Iterable[str]) -> Iterator[tuple[Path, bool]]:
    """Each regular file of these folders, and whether it may be executed. Links are not followed, nor taken."""
    count = 0
    for folder in folders:
        for root, names, files in os.walk(data / folder, followlinks=False):
            names[:] = sorted(name for name in names if not name.startswith("."))  # what is not finished
            for name in sorted(files):
                path = Path(root, name)
                if path.is_symlink() or not path.is_file():
                    continue
                count += 1
                if count > ARCHIVE_FILES:
                    hint = "look at the data directory: something fills it with files"
                    raise StorageUnavailable(f"there are more than {ARCHIVE_FILES} files", hint=hint)
                yield path, bool(path.stat().st_mode & 0o100)


def place_of(data: Path, path: str) -> Path:
    """Where a file of an archive belongs; raises `BadArchive` for one that belongs nowhere."""
    parts = PurePosixPath(path).parts
    plain = all(part not in ("", ".", "..") and "\0" not in part for part in parts)
    if not parts or PurePosixPath(path).is_absolute() or parts[0] not in KEPT_FOLDERS or len(parts) < 2 or not plain:
        raise BadArchive(f"the archive names a file that belongs nowhere: {path[:80]!r}", hint="do not trust it")
    return data.joinpath(*parts)


def write_file(path: Path, pieces: Iterable[bytes], *, executable: bool = False) -> None:
    """A new file for the owner alone, flushed."""
    make_folder(path.parent, 0o700)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o700 if executable else 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(descriptor)
    sync_folder(path.parent)

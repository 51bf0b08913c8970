"""The list of backups of a data directory, so that an erasure can name those that still hold the data."""

import os
from pathlib import Path
from typing import Final

import msgspec

BACKUPS_FILE: Final = "backups.jsonl"
_LISTED: Final = 1000
"""Backups that are remembered, the newest."""


class KnownBackup(msgspec.Struct, frozen=True, kw_only=True):
    """A backup or an export, and where it was written."""

    file: str
    created_ms: int


_decode: Final = msgspec.json.Decoder(KnownBackup).decode


def note_backup(data: Path, file: Path, now_ms: int) -> None:
    """Remember a backup."""
    known = [*known_backups(data), KnownBackup(file=str(file.absolute()), created_ms=now_ms)][-_LISTED:]
    new = data / f"{BACKUPS_FILE}.new"
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file_:
        file_.writelines(msgspec.json.encode(each) + b"\n" for each in known)
    new.rename(data / BACKUPS_FILE)


def known_backups(data: Path) -> list[KnownBackup]:
    """The remembered backups, oldest first. Lines that cannot be read are skipped."""
    file, found = data / BACKUPS_FILE, list[KnownBackup]()
    for line in file.read_bytes().splitlines() if file.is_file() else ():
        try:
            found.append(_decode(line))
        except msgspec.MsgspecError:
            continue
    return found

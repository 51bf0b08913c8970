"""Where the files of skills lie: each content once for a workspace, under its digest, so that no name of a skill's file
is ever a name on this disk. All calls block."""

import hashlib
import os
import secrets
from collections.abc import Iterable, Set
from pathlib import Path
from typing import Final

from bollard.host.errors import StorageFull, StorageUnavailable
from bollard.trust import make_folder, sync_folder

__all__ = ["ContentFiles"]

_INCOMING: Final = ".incoming"
_AGAIN: Final = "add the skill again: `bollard skills add FOLDER`"


class ContentFiles:
    """The folder `skills` of the data directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, workspace: str, contents: Iterable[bytes]) -> None:
        """Put each where it belongs, flushed. Raises `StorageFull`."""
        place = self._folder / workspace
        try:
            make_folder(place)
            for content in contents:
                target = place / hashlib.sha256(content).hexdigest()
                if not target.exists():
                    _write(place / f"{_INCOMING}-{secrets.token_hex(8)}", target, content)
            sync_folder(place)
        except OSError as error:
            raise StorageFull(f"the skill cannot be kept: {error.strerror}", hint="free some space") from error

    def read(self, workspace: str, sha256: str) -> bytes:
        """The content of this digest, and no other. Raises `StorageUnavailable`."""
        try:
            content = (self._folder / workspace / sha256).read_bytes()
        except OSError as error:
            raise StorageUnavailable(f"a file of the skill cannot be read: {error.strerror}", hint=_AGAIN) from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise StorageUnavailable("a file of the skill was changed on disk after it was taken", hint=_AGAIN)
        return content

    def sweep(self, workspace: str, wanted: Set[str]) -> None:
        """Remove what nothing refers to."""
        place = self._folder / workspace
        if place.is_dir():
            for path in place.iterdir():
                if path.name not in wanted:
                    path.unlink(missing_ok=True)

    def workspaces(self) -> list[str]:
        return [path.name for path in self._folder.iterdir() if path.is_dir()] if self._folder.is_dir() else []


def _write(aside: Path, target: Path, content: bytes) -> None:
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o400)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.rename(target)
    finally:
        aside.unlink(missing_ok=True)

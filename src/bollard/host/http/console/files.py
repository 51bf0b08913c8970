"""The built files of the console. Each is read from disk for its request, so a rebuilt console is served at once, and
a host without visitors needs no memory for it."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from bollard.confine.errors import ConfineError
from bollard.confine.folder import Folder
from bollard.host.limits import CONSOLE_FILE_BYTES

INDEX: Final = "index.html"
ASSETS: Final = "assets/"
"""The names of files in this folder contain a hash of their content."""
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "gif": "image/gif",
    "ico": "image/x-icon",
    "jpg": "image/jpeg",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "mjs": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "wasm": "application/wasm",
    "webmanifest": "application/manifest+json",
    "webp": "image/webp",
    "woff2": "font/woff2",
}
_SUFFIXES: Final = {"br": ".br", "gzip": ".gz"}
"""Encodings with the suffix of a compressed copy, the smallest first."""


class File(msgspec.Struct, frozen=True):
    """One file as it is sent."""

    content: bytes
    media_type: str
    encoding: str | None
    tag: str


class ConsoleFiles:
    """The files beneath one folder. Links and other types of files are not served."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def index(self) -> str | None:
        """The page; `None` if the console is not built."""
        content = self._read(INDEX)
        return None if content is None else content.decode()

    def find(self, name: str, encodings: Iterable[str] = ()) -> File | None:
        """The file, in the first encoding of our own order that the client accepts and that was built."""
        media_type = _TYPES.get(name.rpartition(".")[2])
        if media_type is None or name.startswith(".") or "/." in name:
            return None
        accepted = set(encodings)
        for encoding in (each for each in _SUFFIXES if each in accepted):
            content = self._read(name + _SUFFIXES[encoding])
            if content is not None:
                return _file(content, media_type, encoding)
        content = self._read(name)
        return None if content is None else _file(content, media_type, None)

    def _read(self, name: str) -> bytes | None:
        try:
            with Folder(self.folder) as folder:
                return folder.read(name, limit=CONSOLE_FILE_BYTES)
        except (ConfineError, OSError):
            return None


def _file(content: bytes, media_type: str, encoding: str | None) -> File:
    return File(content, media_type, encoding, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def accepted_encodings(header: str) -> set[str]:
    """The encodings of an `Accept-Encoding` header that are not refused with `q=0`. Pure."""
    accepted: set[str] = set()
    for part in header.lower().split(","):
        name, _, weight = part.partition(";")
        if weight.strip().removeprefix("q=").rstrip("0.") or not weight:
            accepted.add(name.strip())
    return accepted

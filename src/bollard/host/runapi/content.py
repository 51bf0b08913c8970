"""One range of a stored content, as runners get bytes: artifacts, storage and files read the same way."""

import base64

import msgspec

from bollard.host.errors import NotFound
from bollard.host.store.blobs import BlobStore

__all__ = ["Piece", "read_piece"]


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Some bytes and where they stand."""

    content: bytes
    offset: int
    size_bytes: int
    """Of the whole."""

    @property
    def base64(self) -> str:
        return base64.b64encode(self.content).decode()

    @property
    def has_more(self) -> bool:
        """Whether bytes follow. Behind the end there are none, however far."""
        return bool(self.content) and self.offset + len(self.content) < self.size_bytes


def read_piece(blobs: BlobStore, sha256: str, offset: int, length: int) -> Piece | None:
    """Blocks; reads no more than the range. Nothing where the content is not here."""
    try:
        size = blobs.size(sha256)
        # An offset that no file has is behind the end too, and no system call takes it.
        content = blobs.read(sha256, offset, length) if offset < size else b""
    except NotFound:
        return None
    return Piece(content=content, offset=offset, size_bytes=size)

"""The key of the HMACs that rows of `kept` carry. It is a file beside the other keys, so an edit of the database alone
cannot make a row that the store believes (ADR 0089).

The file has its final name once every row that was there before has its HMAC. Until then it has another one, so that a
start that dies in between is completed by the next.
"""

import hashlib
import hmac
from pathlib import Path
from typing import Final

import msgspec

from bollard.host.errors import StorageUnavailable
from bollard.host.store.rows import KeptRow
from bollard.trust import KeyFileError, sync_folder
from bollard.trust.key_files import load_or_make_secret

KEPT_KEY: Final = "kept.key"
_FIRST: Final = "kept.first.key"
_encode: Final = msgspec.msgpack.Encoder().encode


class KeptKey:
    """The key of one store."""

    def __init__(self, folder: Path) -> None:
        """`folder` holds the host's keys."""
        self._folder = folder
        self._secret = b""
        self.is_final = False
        """Whether every row must carry an HMAC."""

    def find(self) -> bool:
        """Read the key if it has its final name, and make none. Raises `StorageUnavailable`."""
        self.is_final = (self._folder / KEPT_KEY).exists()
        if self.is_final:
            self.load()
        return self.is_final

    def load(self) -> None:
        """Read the key, or make one. Raises `StorageUnavailable`."""
        self.is_final = (self._folder / KEPT_KEY).exists()
        try:
            self._secret = load_or_make_secret(self._folder / (KEPT_KEY if self.is_final else _FIRST))
        except KeyFileError as error:
            raise StorageUnavailable(
                f"the key {error.path} cannot be used: {error.problem}", hint=error.hint
            ) from error

    def finish(self) -> None:
        """Give the key its final name: all rows carry their HMAC."""
        try:
            (self._folder / _FIRST).rename(self._folder / KEPT_KEY)
            sync_folder(self._folder)
        except FileNotFoundError:  # another process was quicker
            self.load()
        except OSError as error:
            hint = "make the data directory writable for this user"
            raise StorageUnavailable(f"{KEPT_KEY} cannot be written: {error.strerror}", hint=hint) from error
        self.is_final = True

    def mac_of(self, row: KeptRow) -> bytes:
        """Covers every column, so that a row cannot be moved elsewhere."""
        content = (row.kind, row.workspace, row.id, row.body, row.expires_ms, row.updated_ms)
        return hmac.digest(self._secret, _encode(content), hashlib.sha256)

    def made(self, row: KeptRow, mac: bytes | None) -> bool:
        """Whether this key made the HMAC of the row."""
        return isinstance(mac, bytes) and hmac.compare_digest(self.mac_of(row), mac)

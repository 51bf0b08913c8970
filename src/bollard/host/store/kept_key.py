"""The HMAC key of the `kept` rows. It is a file beside the other keys, so an edit of the database alone cannot forge a
row (ADR 0089).

The file gets its final name once every existing row has its HMAC, so the next start completes an interrupted one.
"""

import hashlib
import hmac
from pathlib import Path
from typing import Final

import msgspec

from bollard.host.errors import StorageUnavailable, caused_by
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
        """Whether every row must have an HMAC."""

    def find(self) -> bool:
        """Read the key if it has its final name; never create one. Raises `StorageUnavailable`."""
        self.is_final = (self._folder / KEPT_KEY).exists()
        if self.is_final:
            self.load()
        return self.is_final

    def load(self) -> None:
        """Read the key, or create one. Raises `StorageUnavailable`."""
        self.is_final = (self._folder / KEPT_KEY).exists()
        try:
            self._secret = load_or_make_secret(self._folder / (KEPT_KEY if self.is_final else _FIRST))
        except KeyFileError as error:
            raise key_unusable(error) from error

    def finish(self) -> None:
        """Give the key its final name, once all rows have their HMAC."""
        try:
            (self._folder / _FIRST).rename(self._folder / KEPT_KEY)
            sync_folder(self._folder)
        except FileNotFoundError:  # another process was faster
            self.load()
        except OSError as error:
            raise StorageUnavailable(
                f"{KEPT_KEY} cannot be written: {error.strerror}",
                reason="key_not_writable",
                hint="make the data directory writable for this user",
                file=KEPT_KEY,
                **caused_by(error),
            ) from error
        self.is_final = True

    def mac_of(self, row: KeptRow) -> bytes:
        """The HMAC of a row. It covers every column, so a row cannot be moved."""
        content = (row.kind, row.workspace, row.id, row.body, row.expires_ms, row.updated_ms)
        return hmac.digest(self._secret, _encode(content), hashlib.sha256)

    def made(self, row: KeptRow, mac: bytes | None) -> bool:
        """Whether this key made the HMAC of the row."""
        return isinstance(mac, bytes) and hmac.compare_digest(self.mac_of(row), mac)


def key_unusable(error: KeyFileError) -> StorageUnavailable:
    return StorageUnavailable(
        f"the key {error.path} cannot be used: {error.problem}",
        reason="key_unusable",
        hint=error.hint,
        path=error.path,
        problem=error.problem,
        advice=error.hint,
        **error.details,
    )

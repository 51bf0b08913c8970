"""Seals what must not be readable on disk: AES-256-GCM under a key in a file of its own, bound to the place it is for.

The key is made when the first thing is sealed. Whoever has the file and the database can read everything in it;
whoever has only one of them, nothing.
"""

import asyncio
import hmac
import os
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bollard.host.clock import Clock
from bollard.host.errors import Conflict
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.store.rows import DropKept, KeptRow, PutKept
from bollard.host.store.store import Store
from bollard.trust.key_files import load_or_make_secret

KEY_FILE: Final = "secrets.key"
_VERSION: Final = b"\x01"
"""Begins everything that was sealed. No text that was kept in plain before does."""
_NONCE_BYTES: Final = 12
SEALED_BYTES: Final = len(_VERSION) + _NONCE_BYTES + 16
"""What sealing adds to a content."""


class Unsealable(Exception):
    """It was sealed with another key, for another place, or was changed; or there is no key."""


class Sealer:
    """One per host."""

    def __init__(self, key_file: Path) -> None:
        self._key_file = key_file
        self._cipher: AESGCM | None = None

    def seal(self, place: str, content: bytes) -> bytes:
        """Only `open` for the same place gives it back."""
        if self._cipher is None:
            self._cipher = AESGCM(load_or_make_secret(self._key_file))
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, content, place.encode())

    def open(self, place: str, sealed: bytes) -> bytes:
        """Raises `Unsealable`, and `KeyFileError` for a key file that cannot be used."""
        if self._cipher is None:
            if not self._key_file.exists():
                raise Unsealable("the key file is not there")
            self._cipher = AESGCM(load_or_make_secret(self._key_file))
        nonce, content = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        if not is_sealed(sealed) or len(nonce) < _NONCE_BYTES:
            raise Unsealable("it is not sealed as this version seals")
        try:
            return self._cipher.decrypt(nonce, content, place.encode())
        except InvalidTag:
            raise Unsealable("it was sealed with another key, or for another place") from None


def is_sealed(content: bytes) -> bool:
    """Whether it was sealed, or kept in plain by an earlier version."""
    return content.startswith(_VERSION)


# Fingerprints of values that must not be stored: HMAC-SHA256 under a key of the workspace.
#
# Two fingerprints are equal where the values are, and the value cannot be had from them. Without the key, which is
# kept sealed beside the log, they say nothing any more.


_KIND: Final = "fingerprint_key"
_ID: Final = "1"
_KEY_BYTES: Final = 32


def fingerprint(key: bytes, value: str) -> str:
    """Pure."""
    return f"hmac-sha256:{hmac.new(key, value.encode('utf-8', 'surrogatepass'), sha256).hexdigest()}"


class Fingerprints:
    """One per host. The key of a workspace is made when it is first needed."""

    def __init__(self, journal: Journal, sealer: Sealer, clock: Clock) -> None:
        self._journal = journal
        self._sealer = sealer
        self._clock = clock
        self._keys: dict[str, bytes | None] = {}
        """`None` where there is one that cannot be read."""
        self._making = asyncio.Lock()

    async def load(self, store: Store) -> None:
        for row in await asyncio.to_thread(store.all_kept, _KIND):
            try:
                self._keys[row.workspace] = self._sealer.open(_place(row.workspace), row.body)
            except Unsealable:
                self._keys[row.workspace] = None

    async def of(self, workspace: str, value: str) -> str:
        """Raises `Conflict` where the key cannot be read."""
        async with self._making:
            if workspace not in self._keys:
                await self._make(workspace)
            key = self._keys[workspace]
        if key is None:
            raise Conflict(
                "the key of the fingerprints cannot be read", hint="bring back keys/secrets.key from a backup with keys"
            )
        return fingerprint(key, value)

    async def forget(self, workspace: str) -> None:
        """From now on nobody can say of any fingerprint what it is of."""
        async with self._making:
            await self._journal.commit_through(Entry(keeps=[DropKept(_KIND, workspace, _ID)]))
            self._keys.pop(workspace, None)

    async def _make(self, workspace: str) -> None:
        key = os.urandom(_KEY_BYTES)
        row = KeptRow(
            kind=_KIND,
            workspace=workspace,
            id=_ID,
            body=self._sealer.seal(_place(workspace), key),
            expires_ms=None,
            updated_ms=self._clock.now_ms(),
        )
        await self._journal.commit_through(Entry(keeps=[PutKept(row)]))
        self._keys[workspace] = key


def _place(workspace: str) -> str:
    return f"{_KIND}/{workspace}"

"""Encryption of stored secrets: AES-256-GCM with a key in its own file, bound to the place of each value.

The key is created with the first sealed value. Reading a value requires both the key file and the database; each alone
is useless.
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
"""The prefix of sealed content. Content that earlier versions stored in plain text never has it."""
_NONCE_BYTES: Final = 12
SEALED_BYTES: Final = len(_VERSION) + _NONCE_BYTES + 16
"""Bytes that sealing adds."""


class Unsealable(Exception):
    """The content was sealed with another key or for another place, or was changed; or there is no key."""


class Sealer:
    """Seals and opens content with the key of one file. One per host."""

    def __init__(self, key_file: Path) -> None:
        self._key_file = key_file
        self._cipher: AESGCM | None = None

    def seal(self, place: str, content: bytes) -> bytes:
        """Encrypt content; only `open` with the same place decrypts it."""
        if self._cipher is None:
            self._cipher = AESGCM(load_or_make_secret(self._key_file))
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, content, place.encode())

    def open(self, place: str, sealed: bytes) -> bytes:
        """Decrypt content. Raises `Unsealable`, and `KeyFileError` for an unusable key file."""
        if self._cipher is None:
            if not self._key_file.exists():
                raise Unsealable("the key file is missing")
            self._cipher = AESGCM(load_or_make_secret(self._key_file))
        nonce, content = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        if not is_sealed(sealed) or len(nonce) < _NONCE_BYTES:
            raise Unsealable("it is not sealed as this version seals")
        try:
            return self._cipher.decrypt(nonce, content, place.encode())
        except InvalidTag:
            raise Unsealable("it was sealed with another key, or for another place") from None


def is_sealed(content: bytes) -> bool:
    """Whether the content is sealed; earlier versions stored it in plain text."""
    return content.startswith(_VERSION)


# --- fingerprints: HMAC-SHA256 of values that must not be stored, with a sealed key per workspace ---

_KIND: Final = "fingerprint_key"
_ID: Final = "1"
_KEY_BYTES: Final = 32


def fingerprint(key: bytes, value: str) -> str:
    """The fingerprint of a value. Equal values have equal fingerprints, which do not reveal the value. Pure."""
    return f"hmac-sha256:{hmac.new(key, value.encode('utf-8', 'surrogatepass'), sha256).hexdigest()}"


class Fingerprints:
    """Computes fingerprints. The key of a workspace is created on first use. One per host."""

    def __init__(self, journal: Journal, sealer: Sealer, clock: Clock) -> None:
        self._journal = journal
        self._sealer = sealer
        self._clock = clock
        self._keys: dict[str, bytes | None] = {}
        """The keys by workspace; `None` for a key that cannot be read."""
        self._making = asyncio.Lock()

    async def load(self, store: Store) -> None:
        for row in await asyncio.to_thread(store.all_kept, _KIND):
            try:
                self._keys[row.workspace] = self._sealer.open(_place(row.workspace), row.body)
            except Unsealable:
                self._keys[row.workspace] = None

    async def of(self, workspace: str, value: str) -> str:
        """The fingerprint of a value. Raises `Conflict` if the key cannot be read."""
        async with self._making:
            if workspace not in self._keys:
                await self._make(workspace)
            key = self._keys[workspace]
        if key is None:
            raise Conflict(
                "the fingerprint key of the workspace cannot be read",
                reason="fingerprint_key_unreadable",
                hint="restore keys/secrets.key from a backup with keys",
            )
        return fingerprint(key, value)

    async def forget(self, workspace: str) -> None:
        """Delete the key of a workspace, so that its fingerprints can no longer be compared with values."""
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

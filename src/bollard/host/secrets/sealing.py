"""Seals what must not be readable on disk: AES-256-GCM under a key in a file of its own, bound to the place it is for.

The key is made when the first thing is sealed. Whoever has the file and the database can read everything in it;
whoever has only one of them, nothing.
"""

import os
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bollard.trust.keys import load_or_make_secret

__all__ = ["KEY_FILE", "SEALED_BYTES", "Sealer", "Unsealable", "is_sealed"]

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

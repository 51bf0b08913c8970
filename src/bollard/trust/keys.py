"""The host's keys: an Ed25519 pair that signs heads, and a secret that signs cursors. Files are the owner's alone."""

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from bollard.trust.errors import BadSignature, KeyFileError
from bollard.trust.folders import make_folder, sync_folder

__all__ = ["SECRET_BYTES", "SigningKey", "VerifyKey", "load_or_make_secret", "load_or_make_signing_key"]

SECRET_BYTES: Final = 32


class VerifyKey:
    """The public half: what a stranger needs to check a signature."""

    def __init__(self, public: bytes) -> None:
        self.public = public
        self._key = Ed25519PublicKey.from_public_bytes(public)

    @property
    def key_id(self) -> str:
        return hashlib.sha256(self.public).hexdigest()[:16]

    def verify(self, text: bytes, signature: bytes) -> None:
        """Raises `BadSignature`."""
        try:
            self._key.verify(signature, text)
        except InvalidSignature:
            raise BadSignature(f"the signature is not of key {self.key_id}") from None


class SigningKey:
    """The private half. Never printed, never logged."""

    def __init__(self, secret: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.verify_key = VerifyKey(self._key.public_key().public_bytes_raw())

    def sign(self, text: bytes) -> bytes:
        return self._key.sign(text)

    def __repr__(self) -> str:
        return f"SigningKey({self.verify_key.key_id})"

    @staticmethod
    def new_secret() -> bytes:
        return Ed25519PrivateKey.generate().private_bytes_raw()


def load_or_make_signing_key(path: Path) -> SigningKey:
    """The key in `path`, made on first use."""
    return SigningKey(_load_or_make(path, SigningKey.new_secret()))


def load_or_make_secret(path: Path) -> bytes:
    """The secret in `path`, made on first use."""
    return _load_or_make(path, os.urandom(SECRET_BYTES))


def _load_or_make(path: Path, fresh: bytes) -> bytes:
    if path.exists():
        return _load(path)
    # Under its name only when it is whole: a process that dies in between must not leave half a key.
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        make_folder(path.parent)
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(fresh.hex().encode())
            file.flush()
            os.fsync(file.fileno())
        os.link(unfinished, path)
        unfinished.unlink()
        sync_folder(path.parent)
    except FileExistsError:
        return _load(path)
    except OSError as error:
        hint = "make the data directory writable for this user"
        raise KeyFileError(str(path), f"cannot be written: {error.strerror}", hint) from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
    return fresh


def _load(path: Path) -> bytes:
    try:
        mode, text = path.stat().st_mode, path.read_bytes()
    except OSError as error:
        hint = "run as the user who owns the data directory"
        raise KeyFileError(str(path), f"cannot be read: {error.strerror}", hint) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeyFileError(str(path), "is readable by others", f"chmod 600 {path.name}")
    try:
        secret = bytes.fromhex(text.decode().strip())
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise KeyFileError(str(path), "does not hold a key", "restore it from a backup: a new one verifies nothing old")
    return secret

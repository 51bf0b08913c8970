"""The host's Ed25519 key pair, which signs heads."""

import hashlib
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from bollard.trust.errors import BadSignature
from bollard.trust.key_files import load_or_make


class VerifyKey:
    """The public key, which verifies signatures."""

    def __init__(self, public: bytes) -> None:
        self.public = public
        self._key = Ed25519PublicKey.from_public_bytes(public)

    @property
    def fingerprint(self) -> str:
        """The full digest, which people compare before they trust a key."""
        return hashlib.sha256(self.public).hexdigest()

    @property
    def key_id(self) -> str:
        """A short name that distinguishes keys. It proves nothing."""
        return self.fingerprint[:16]

    def verify(self, text: bytes, signature: bytes) -> None:
        """Raises `BadSignature`."""
        try:
            self._key.verify(signature, text)
        except InvalidSignature:
            raise BadSignature(f"the signature is not of key {self.key_id}") from None


class SigningKey:
    """The private key. Never printed, never logged."""

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
    """Return the key in `path`, created on first use."""
    return SigningKey(load_or_make(path, SigningKey.new_secret()))

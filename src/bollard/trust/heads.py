"""Signed heads of chains, and the texts that a remote runtime signs. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from bollard.trust.canonical import canonical_json

if TYPE_CHECKING:
    from bollard.protocol import JsonObject


class HeadVerifier(Protocol):
    """A key that verifies signatures."""

    @property
    def key_id(self) -> str: ...

    def verify(self, text: bytes, signature: bytes) -> None:
        """Raises `BadSignature`."""
        ...


class HeadSigner(Protocol):
    """A key that signs. Its secret may be elsewhere."""

    @property
    def verify_key(self) -> HeadVerifier: ...

    def sign(self, text: bytes) -> bytes: ...


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The newest record of a chain at a point in time."""

    workspace: str
    chain: str
    position: int
    hash: str
    created_ms: int

    def text(self) -> bytes:
        """Return the text to sign."""
        body: JsonObject = {
            "chain": self.chain,
            "created_ms": self.created_ms,
            "hash": self.hash,
            "kind": "bollard-head-1",
            "position": self.position,
            "workspace": self.workspace,
        }
        return canonical_json(body)


class SignedHead(msgspec.Struct, frozen=True, kw_only=True):
    """A head with the signature of its host."""

    head: Head
    key_id: str
    signature: bytes


def sign_head(head: Head, key: HeadSigner) -> SignedHead:
    return SignedHead(head=head, key_id=key.verify_key.key_id, signature=key.sign(head.text()))


def verify_head(signed: SignedHead, key: HeadVerifier) -> None:
    """Raises `BadSignature`."""
    key.verify(signed.head.text(), signed.signature)


# A remote runtime signs one text when it is enrolled and another each time it connects. The texts start differently, so
# that a signature of one is not valid for the other. The second contains the host's id, so that a signature is valid
# for one host only.


_ENROL: Final = b"bollard runtime enrol 1"
_CONNECT: Final = b"bollard runtime connect 1"


def enrol_proof(code: str, public_key: bytes) -> bytes:
    """Return the text whose signature proves that the holder of the code has the private key."""
    return b"\0".join((_ENROL, hashlib.sha256(code.encode()).hexdigest().encode(), public_key.hex().encode()))


def connect_proof(host_id: str, nonce: str, public_key: bytes) -> bytes:
    """Return the text whose signature answers the host's challenge; bound to the host, the nonce and the key."""
    return b"\0".join((_CONNECT, host_id.encode(), nonce.encode(), public_key.hex().encode()))

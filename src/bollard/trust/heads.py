"""Signed chain heads: what makes a chain evidence. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from bollard.trust.canonical import canonical_json

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["Head", "HeadSigner", "HeadVerifier", "SignedHead", "sign_head", "verify_head"]


class HeadVerifier(Protocol):
    """A key that knows its own signatures."""

    @property
    def key_id(self) -> str: ...

    def verify(self, text: bytes, signature: bytes) -> None:
        """Raises `BadSignature`."""
        ...


class HeadSigner(Protocol):
    """A key that signs, wherever its secret is."""

    @property
    def verify_key(self) -> HeadVerifier: ...

    def sign(self, text: bytes) -> bytes: ...


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The newest record of a chain at a moment."""

    workspace: str
    chain: str
    position: int
    hash: str
    created_ms: int

    def text(self) -> bytes:
        """What is signed."""
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
    """A head and the signature of the host that wrote the chain."""

    head: Head
    key_id: str
    signature: bytes


def sign_head(head: Head, key: HeadSigner) -> SignedHead:
    return SignedHead(head=head, key_id=key.verify_key.key_id, signature=key.sign(head.text()))


def verify_head(signed: SignedHead, key: HeadVerifier) -> None:
    """Raises `BadSignature`."""
    key.verify(signed.head.text(), signed.signature)

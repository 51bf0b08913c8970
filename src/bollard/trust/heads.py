"""Signed chain heads: what makes a chain evidence. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bollard.trust.canonical import canonical_json
from bollard.trust.keys import SigningKey, VerifyKey

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["Head", "SignedHead", "sign_head", "verify_head"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedHead:
    """A head and the signature of the host that wrote the chain."""

    head: Head
    key_id: str
    signature: bytes


def sign_head(head: Head, key: SigningKey) -> SignedHead:
    return SignedHead(head=head, key_id=key.verify_key.key_id, signature=key.sign(head.text()))


def verify_head(signed: SignedHead, key: VerifyKey) -> None:
    """Raises `BadSignature`."""
    key.verify(signed.head.text(), signed.signature)

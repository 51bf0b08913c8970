"""Signed requests according to Standard Webhooks: an HMAC over id, timestamp and body. Pure.

The body is hashed in pieces, so that a large one need not be in memory.
"""

import base64
import binascii
import contextlib
import hmac
import math
import secrets
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, Literal

import msgspec

from bollard.host.limits import WEBHOOK_SKEW_S

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 -- the prefix of every such secret
ID_HEADER: Final = "webhook-id"
_TIME_HEADER: Final = "webhook-timestamp"
_SIGNATURE_HEADER: Final = "webhook-signature"
_VERSION: Final = "v1"
_SECRET_LEAST_BYTES: Final = 24
_SECRET_BYTES: Final = 64
_ID_CHARACTERS: Final = 256
_SIGNATURES: Final = 16
"""Signatures per request. A sender that rotates its secret sends two."""

Fault = Literal["missing", "malformed", "late", "forged"]


def new_secret() -> str:
    """Generate a signing secret."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def secret_bytes(secret: str) -> bytes:
    """The key of a secret. Raises `ValueError`."""
    if not secret.startswith(SECRET_PREFIX):
        raise ValueError(f"a signing secret begins with {SECRET_PREFIX}")
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"a signing secret is base64 after {SECRET_PREFIX}") from None
    if not _SECRET_LEAST_BYTES <= len(key) <= _SECRET_BYTES:
        raise ValueError(f"a signing secret has {_SECRET_LEAST_BYTES} to {_SECRET_BYTES} bytes")
    return key


def sign(key: bytes, message_id: str, seconds: int, body: bytes) -> dict[str, str]:
    """The signature headers for a request with this body."""
    digest = hmac.new(key, f"{message_id}.{seconds}.".encode() + body, sha256).digest()
    signature = f"{_VERSION},{base64.b64encode(digest).decode()}"
    return {ID_HEADER: message_id, _TIME_HEADER: str(seconds), _SIGNATURE_HEADER: signature}


class SignatureClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The signatures in the headers of a request, not verified yet."""

    message_id: str
    seconds: int
    signatures: tuple[bytes, ...]

    def begin(self, key: bytes) -> "hmac.HMAC":
        """The HMAC to update with the body. Then call `fits`."""
        return hmac.new(key, f"{self.message_id}.{self.seconds}.".encode(), sha256)

    def fits(self, digest: "hmac.HMAC") -> bool:
        expected = digest.digest()
        matches = False
        for signature in self.signatures:  # all of them, to keep the time constant
            matches |= hmac.compare_digest(expected, signature)
        return matches


def read_seal(headers: Mapping[str, str], now_s: float) -> SignatureClaim | Fault:
    """The signatures of a request, or the fault of its headers."""
    message_id, text = headers.get(ID_HEADER), headers.get(_TIME_HEADER)
    listed = headers.get(_SIGNATURE_HEADER)
    if not message_id or not text or not listed:
        return "missing"
    if len(message_id) > _ID_CHARACTERS or not (message_id.isascii() and message_id.isprintable()):
        return "malformed"
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        return "malformed"
    if math.fabs(now_s - int(text)) > WEBHOOK_SKEW_S:
        return "late"
    signatures: list[bytes] = []
    for entry in listed.split(" ")[:_SIGNATURES]:
        version, _, encoded = entry.partition(",")
        if version == _VERSION:
            with contextlib.suppress(ValueError):  # no base64, or no ASCII: another entry may still be right
                signatures.append(base64.b64decode(encoded, validate=True))
    return (
        SignatureClaim(message_id=message_id, seconds=int(text), signatures=tuple(signatures))
        if signatures
        else "malformed"
    )

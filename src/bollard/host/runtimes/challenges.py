"""Challenges for who says to be a runtime: each good once, for a short time, at this host only.

A challenge carries its own time and a seal, so that nothing is kept for a stranger who only asks; what was signed and
used is remembered until it has expired. A restart forgets the seal, and with it every challenge before.
"""

import hashlib
import hmac
import os
from typing import Final

from bollard.host.clock import Clock
from bollard.host.limits import RUNTIME_CHALLENGE_S
from bollard.trust import BadSignature, connect_proof
from bollard.trust.keys import VerifyKey

__all__ = ["Challenges"]

_RANDOM_BYTES: Final = 16
_SEAL_CHARACTERS: Final = 32


class Challenges:
    """One per host."""

    def __init__(self, host_id: str, clock: Clock, secret: bytes | None = None) -> None:
        self.host_id = host_id
        self._clock = clock
        self._secret = secret or os.urandom(32)
        self._used: dict[str, int] = {}
        """With when each has expired; the oldest first."""

    def issue(self) -> tuple[str, int]:
        """A challenge, and when it expires."""
        expires_ms = self._clock.now_ms() + round(RUNTIME_CHALLENGE_S * 1000)
        head = f"{expires_ms:x}.{os.urandom(_RANDOM_BYTES).hex()}"
        return f"{head}.{self._seal(head)}", expires_ms

    def answer(self, nonce: str, public_key: str, signature: str) -> bool:
        """Whether this key signed this challenge, now and for the first time. Uses the challenge up."""
        now_ms = self._clock.now_ms()
        head, _, seal = nonce.rpartition(".")
        if not nonce.isascii() or not hmac.compare_digest(seal, self._seal(head)):
            return False
        expires_ms = int(head.partition(".")[0], 16)  # sealed, so it is ours
        if expires_ms <= now_ms or nonce in self._used or not self._is_signed(nonce, public_key, signature):
            return False
        self._forget(now_ms)
        self._used[nonce] = expires_ms
        return True

    def _is_signed(self, nonce: str, public_key: str, signature: str) -> bool:
        try:
            key = VerifyKey(bytes.fromhex(public_key))
            key.verify(connect_proof(self.host_id, nonce, key.public), bytes.fromhex(signature))
        except (BadSignature, ValueError):
            return False
        return True

    def _seal(self, head: str) -> str:
        return hmac.new(self._secret, head.encode(), hashlib.sha256).hexdigest()[:_SEAL_CHARACTERS]

    def _forget(self, now_ms: int) -> None:
        for nonce in [nonce for nonce, expires_ms in self._used.items() if expires_ms <= now_ms]:
            del self._used[nonce]

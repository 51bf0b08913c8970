"""What a remote runtime signs with its key: once when it is enrolled, and each time that it connects. Pure.

The two texts begin differently, so that no signature for one is good for the other; and the host's id is part of the
second, so that no signature for one host is good at another.
"""

import hashlib
from typing import Final

__all__ = ["connect_proof", "enrol_proof"]

_ENROL: Final = b"bollard runtime enrol 1"
_CONNECT: Final = b"bollard runtime connect 1"


def enrol_proof(code: str, public_key: bytes) -> bytes:
    """Says that who has the code also has the private half of the key."""
    return b"\0".join((_ENROL, hashlib.sha256(code.encode()).hexdigest().encode(), public_key.hex().encode()))


def connect_proof(host_id: str, nonce: str, public_key: bytes) -> bytes:
    """The host's challenge, which holds when it was made, for this host and by this key."""
    return b"\0".join((_CONNECT, host_id.encode(), nonce.encode(), public_key.hex().encode()))

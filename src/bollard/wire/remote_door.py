"""What a remote runtime and a host agree on before there is a channel: where to knock, and under which names a runtime
says who it is. Imports nothing: the host needs it without the extra, and the runtime before it dials."""

from typing import Final

__all__ = [
    "CHALLENGE_PATH",
    "CHANNEL_PATH",
    "CHANNEL_SUBPROTOCOL",
    "ENROLMENT_PATH",
    "KEY_HEADER",
    "NONCE_HEADER",
    "SIGNATURE_HEADER",
]

CHALLENGE_PATH: Final = "/api/v1/runtime/challenge"
"""Answers a nonce and the host's id; what is signed to connect."""
ENROLMENT_PATH: Final = "/api/v1/runtime/enrolment"
"""Takes a one-time code and a public key."""
CHANNEL_PATH: Final = "/api/v1/runtime/channel"
"""The WebSocket that carries the channel."""

CHANNEL_SUBPROTOCOL: Final = "bollard.v1"
"""What the WebSocket speaks."""

KEY_HEADER: Final = "bollard-runtime-key"
"""The public key, as hex."""
NONCE_HEADER: Final = "bollard-runtime-nonce"
SIGNATURE_HEADER: Final = "bollard-runtime-signature"
"""Over `connect_proof`, as hex."""

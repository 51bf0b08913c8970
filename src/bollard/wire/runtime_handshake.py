"""The paths and header names of the handshake between a remote runtime and a host.

Imports nothing: the host needs it without the extra `remote`, and the runtime before it connects.
"""

from typing import Final

CHALLENGE_PATH: Final = "/api/v1/runtime/challenge"
"""Returns a nonce and the host's id, which the runtime signs to connect."""
ENROLMENT_PATH: Final = "/api/v1/runtime/enrolment"
"""Accepts a one-time code and a public key."""
CHANNEL_PATH: Final = "/api/v1/runtime/channel"
"""The WebSocket that carries the worker connection."""

CHANNEL_SUBPROTOCOL: Final = "bollard.v1"
"""The WebSocket subprotocol."""

KEY_HEADER: Final = "bollard-runtime-key"
"""The public key, as hex."""
NONCE_HEADER: Final = "bollard-runtime-nonce"
SIGNATURE_HEADER: Final = "bollard-runtime-signature"
"""The signature of `connect_proof`, as hex."""

"""Limits of models, each with its unit."""

from typing import Final

__all__ = [
    "AT_ONCE_MAX",
    "BACKENDS_OPEN",
    "CALL_ARTIFACTS",
    "CALL_ARTIFACT_BYTES",
    "CALL_TEXTS",
    "EXTRA_ARGS_BYTES",
    "HEADERS",
    "HEADER_CHARACTERS",
    "KEYS_KEPT",
    "MODELS_OF_WORKSPACE",
    "NAME_CHARACTERS",
    "PER_MINUTE_MAX",
    "PRICE_MAX",
    "SECONDS_MAX",
    "TEST_S",
    "TOKENS_MAX",
    "TRIES_MAX",
    "URL_CHARACTERS",
    "WAITING_CALLS",
]

MODELS_OF_WORKSPACE: Final = 256
"""Models that the people of one workspace may save."""
URL_CHARACTERS: Final = 2048
"""The address of a provider."""
NAME_CHARACTERS: Final = 256
"""A provider's own name for a model."""
HEADERS: Final = 16
"""Headers that every call of a model sends."""
HEADER_CHARACTERS: Final = 2048
"""One such header."""
EXTRA_ARGS_BYTES: Final = 16 * 1024
"""Arguments of every call of a model, as JSON."""
TOKENS_MAX: Final = 100_000_000
"""The largest context window, and the most tokens of an answer, that a model may say it has."""
PRICE_MAX: Final = 1_000_000.0
"""The price of a million tokens."""
SECONDS_MAX: Final = 3600.0
"""The longest of the waits for a provider."""
TRIES_MAX: Final = 10
"""How often a call may be made at most."""
AT_ONCE_MAX: Final = 10_000
"""Calls of one model that may be under way at once."""
PER_MINUTE_MAX: Final = 1_000_000_000
"""The largest rate of requests, and of tokens."""
WAITING_CALLS: Final = 256
"""Calls of one model that may wait for a place; more are refused."""
BACKENDS_OPEN: Final = 64
"""Providers' connections that are kept; the one that was used longest ago is closed first."""
KEYS_KEPT: Final = 4096
"""Keys that are remembered for the runs that were given them."""
CALL_ARTIFACTS: Final = 32
"""Artifacts in the messages of one call."""
CALL_ARTIFACT_BYTES: Final = 20 * 1024 * 1024
"""Bytes of all artifacts in the messages of one call."""
CALL_TEXTS: Final = 2048
"""Texts of one call that embeds."""
TEST_S: Final = 60.0
"""Time that a test of a model may take."""

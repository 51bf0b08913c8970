"""Limits of channels, each with its unit."""

from typing import Final

from bollard.protocol.limits import KIB

PATTERN_BYTES: Final = 64 * KIB
"""One compiled pattern. A letter of any language takes about 40 KiB."""
PATTERNS_BYTES: Final = 128 * KIB
"""All compiled patterns of one channel."""
PATTERN_TEXT_CHARACTERS: Final = 2048
"""The beginning of a message that is matched."""
LONG_TEXT_CHARACTERS: Final = 16_000
"""A longer message is filtered in a thread."""

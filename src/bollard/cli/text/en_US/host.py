"""What a host says, in English: as it says it."""

from typing import Final

HOST: Final[dict[str, str]] = {}
CODES: Final[dict[str, str]] = {}
ADVICE: Final[dict[str, str]] = {}
REASONS: Final[dict[str, tuple[str, str]]] = {}

"""Texts of the host in English: shown as they are."""

from typing import Final

HOST: Final[dict[str, str]] = {}
CODES: Final[dict[str, str]] = {}
ADVICE: Final[dict[str, str]] = {}
REASONS: Final[dict[str, tuple[str, str]]] = {}

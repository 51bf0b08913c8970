"""Errors of the HTTP server, authentication, identity and resources: the sentence and the hint, by code and reason."""

from typing import Final

REASONS: Final[dict[str, tuple[str, str]]] = {}

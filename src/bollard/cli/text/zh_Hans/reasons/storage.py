"""Errors of store, log, audit, backup, secrets, files, settings and egress, by code and reason."""

from typing import Final

REASONS: Final[dict[str, tuple[str, str]]] = {}

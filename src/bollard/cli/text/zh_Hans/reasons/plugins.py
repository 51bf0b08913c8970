"""Errors of plugins, runtimes, MCP servers, skills: the sentence and the hint, by code and reason."""

from typing import Final

REASONS: Final[dict[str, tuple[str, str]]] = {}

"""Errors of runs, events, agents, delivery, channels, workers and the run API, by code and reason."""

from typing import Final

REASONS: Final[dict[str, tuple[str, str]]] = {}

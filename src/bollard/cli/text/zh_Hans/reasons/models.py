"""Errors of models and knowledge: the sentence and the hint, by code and reason."""

from typing import Final

REASONS: Final[dict[str, tuple[str, str]]] = {}

"""Bollard: an event-first agent host. Moor any agent, guard everything it touches."""

from typing import Final

__all__ = ["__version__"]

__version__: Final = "0.1.0"

"""One plugin as the host knows it before any worker runs: where it is, and what pins it."""

from pathlib import Path

import msgspec

__all__ = ["PluginSource"]


class PluginSource(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin folder or file, and how its workers are started."""

    name: str
    path: Path
    workers: int = 1
    command: tuple[str, ...] = ()
    """The command that starts a worker; empty for the Python runtime."""
    plugin_id: str | None = None
    """`author/name` that its workers must say; whatever they say where it is absent."""
    digest: str | None = None
    """The code that its workers must be of."""
    env: tuple[str, ...] | None = None
    """Variables that its workers may see; those that its manifest names where it is absent."""

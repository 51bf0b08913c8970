"""The plugins that the host's settings bring into every workspace: those that come with it, and others."""

from pathlib import Path
from typing import Final

from bollard.host.errors import HostError
from bollard.host.plugins.description import describe
from bollard.host.plugins.fitting import Origin
from bollard.host.settings import Settings
from bollard.host.workers.plugin import PluginSource

__all__ = ["said_id", "shared_sources"]

_WITH_THE_HOST: Final = Path(__file__).resolve().parents[2] / "plugins"
_IN_THE_REPOSITORY: Final = Path(__file__).resolve().parents[4] / "plugins"


def shared_sources(settings: Settings) -> list[tuple[PluginSource, Origin]]:
    """In the order in which they may take a name."""
    builtin: list[Path] = []
    if settings.builtin_plugins:
        folder = _WITH_THE_HOST if _WITH_THE_HOST.is_dir() else _IN_THE_REPOSITORY
        if folder.is_dir():
            builtin = sorted(path for path in folder.iterdir() if (path / "manifest.yaml").is_file())
    found: list[tuple[PluginSource, Origin]] = [(_source(path, settings), "builtin") for path in builtin]
    return [*found, *((_source(path, settings), "settings") for path in settings.plugins)]


def _source(path: Path, settings: Settings) -> PluginSource:
    return PluginSource(name=path.stem.lower(), path=path, workers=settings.workers)


def said_id(source: PluginSource) -> str | None:
    """What a plugin's files say that it is called; nothing where they cannot say it, its worker will."""
    try:
        return None if source.command else describe(source.path).plugin_id
    except (HostError, OSError):
        return None

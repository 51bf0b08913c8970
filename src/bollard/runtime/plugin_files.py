"""The files of a plugin: what it is pinned by, and how Python finds its modules. Runs no plugin code."""

import os
import sys
from pathlib import Path

from bollard.runtime.problems import PluginLoadError, Problem
from bollard.wire.plugin_files import PluginFileError, digest_of_plugin

__all__ = ["digest_of", "is_from", "make_importable"]


def digest_of(path: Path) -> str:
    """What a plugin is pinned by. Raises `PluginLoadError` where a file of it cannot be read."""
    try:
        return digest_of_plugin(path)
    except PluginFileError as error:
        hint = "make it readable, or take it out of the plugin"
        raise PluginLoadError(
            Problem(rule="PL01", where=path.name, field=error.name, problem=error.problem, hint=hint)
        ) from error


def make_importable(folder: Path) -> None:
    """Let Python find the folder's modules: after its own, so that none can be replaced, and before all others.

    Cached bytecode is not looked at from here on: it is not part of the digest, so it must not be what runs.
    """
    sys.dont_write_bytecode = True
    sys.pycache_prefix = os.path.join(os.devnull, "no-cache")
    if str(folder) in sys.path:
        return
    library = Path(os.__file__).parent
    own = {str(library), str(library / "lib-dynload")}
    sys.path.insert(max((at + 1 for at, entry in enumerate(sys.path) if entry in own), default=0), str(folder))


def is_from(folder: Path, module: object) -> bool:
    """Whether a module was found in the folder."""
    file = getattr(module, "__file__", None)
    places = [file] if isinstance(file, str) else [str(place) for place in getattr(module, "__path__", ())]
    return any(Path(place).is_relative_to(folder) for place in places)

"""The files of a plugin: the digest that pins them, and their way onto the import path."""

import os
import sys
from pathlib import Path

from bollard.manifest import PluginLoadError, Problem
from bollard.wire.plugin_files import PluginFileError, digest_of_plugin


def digest_of(path: Path) -> str:
    """Return the digest that pins a plugin. Raises `PluginLoadError` if a file is unreadable."""
    try:
        return digest_of_plugin(path)
    except PluginFileError as error:
        hint = "make it readable, or take it out of the plugin"
        raise PluginLoadError(
            Problem("PL01", path.name, error.name, error.problem, hint, {"problem_type": "plugin.unreadable"})
        ) from error


def make_importable(folder: Path) -> None:
    """Add the folder to the import path: after the standard library, which it cannot replace, and before all else.

    Disables cached bytecode, which is not part of the digest and therefore must not run.
    """
    sys.dont_write_bytecode = True
    sys.pycache_prefix = os.path.join(os.devnull, "no-cache")
    if str(folder) in sys.path:
        return
    library = Path(os.__file__).parent
    own = {str(library), str(library / "lib-dynload")}
    sys.path.insert(max((at + 1 for at, entry in enumerate(sys.path) if entry in own), default=0), str(folder))


def is_from(folder: Path, module: object) -> bool:
    """Return whether a module was loaded from the folder."""
    file = getattr(module, "__file__", None)
    places = [file] if isinstance(file, str) else [str(place) for place in getattr(module, "__path__", ())]
    return any(Path(place).is_relative_to(folder) for place in places)

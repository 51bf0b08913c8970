"""The declaration of a runner as a real host sees it: in a plugin folder, `manifest.yaml` overrides the decorator."""

import inspect
import sys
from functools import lru_cache
from pathlib import Path

from bollard.manifest import MANIFEST_NAME, ManifestReading, PluginLoadError, read_manifest
from bollard.protocol import PluginRunner
from bollard.sdk.declaration import RunnerDeclaration
from bollard.sdk.errors import DeclarationError


def declared_on_host(declaration: RunnerDeclaration) -> tuple[RunnerDeclaration, bool]:
    """Return the declaration merged with the manifest beside the runner's code, and whether there is a manifest.

    Raises `PluginLoadError` if the manifest is unusable, and `DeclarationError` if it does not name the runner: a host
    would not offer it.
    """
    folder = _plugin_folder(declaration)
    if folder is None:
        return declaration, False
    written = (folder / MANIFEST_NAME).stat()
    reading = _read(folder, written.st_mtime_ns, written.st_size)
    entry = _find_entry(reading, declaration)
    if entry is None:
        for problem in reading.problems:
            raise PluginLoadError(problem)
        target = declaration.target.__name__
        hint = f"add it to spec.runners with the entry {declaration.target.__module__}:{target}"
        raise DeclarationError(f"runner {declaration.name!r}", f"{MANIFEST_NAME} beside it does not name it", hint)
    return declaration.under(entry), True


@lru_cache(maxsize=8)
def _read(folder: Path, written_ns: int, size: int) -> ManifestReading:
    """Read a manifest once for all runs of a test session: parsing a long one takes a tenth of a second."""
    del written_ns, size  # a changed file is read again
    return read_manifest(folder)


def _plugin_folder(declaration: RunnerDeclaration) -> Path | None:
    """Return the folder with the manifest, which is also the root of the plugin's modules."""
    file = _file_of(declaration.target)
    if file is None:
        return None
    depth = declaration.target.__module__.count(".") + (file.name == "__init__.py")
    folder = file.parents[depth] if depth < len(file.parents) else file.parent
    return folder if (folder / MANIFEST_NAME).is_file() else None


def _file_of(target: object) -> Path | None:
    module = sys.modules.get(getattr(target, "__module__", ""))
    file = getattr(module, "__file__", None)
    if file is None and inspect.isfunction(target):  # its module was loaded under no name
        file = target.__code__.co_filename
    return None if file is None else Path(file).resolve()


def _find_entry(reading: ManifestReading, declaration: RunnerDeclaration) -> PluginRunner | None:
    found = [entry for entry in reading.runners if entry.entry and _names(entry.entry, declaration.target)]
    same_name = [entry for entry in found if entry.name == declaration.name]
    return next(iter(same_name or found), None)


def _names(entry: str, target: object) -> bool:
    """Whether an entry such as `runner:echo` names the runner, also under a second name."""
    module_name, _, attribute = entry.partition(":")
    module = sys.modules.get(module_name)
    if module is not None and getattr(module, attribute, None) is target:
        return True
    file = _file_of(target)
    parts = module_name.split(".")
    own = file is not None and (file.stem == parts[-1] or (file.stem == "__init__" and file.parent.name == parts[-1]))
    return own and getattr(target, "__name__", None) == attribute

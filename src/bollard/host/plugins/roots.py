"""Where the plugin is in what was unpacked: at the top, in the one folder there is, or where a wheel says it.

A wheel says it with an entry point of the group `bollard.plugins`, whose value is the module that is the plugin's
folder: `parrot = acme_parrot`.
"""

import configparser
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bollard.host.errors import InvalidRequest
from bollard.host.limits import KIB
from bollard.host.plugins.archive_names import bad_archive
from bollard.wire.manifest_text import MANIFEST_NAME

__all__ = ["ENTRY_POINTS", "find_root", "one_module"]

ENTRY_POINTS: Final = "bollard.plugins"
"""The group of entry points by which a Python package says that it holds a plugin."""
_ENTRY_POINTS_BYTES: Final = 64 * KIB


def find_root(unpacked: Path) -> Path:
    """The plugin's folder or file. Raises `InvalidRequest`."""
    if (unpacked / MANIFEST_NAME).is_file():
        return unpacked
    said = sorted(unpacked.glob("*.dist-info/entry_points.txt"))
    if said:
        return _in_wheel(unpacked, said[0])
    inside = list(unpacked.iterdir())
    if len(inside) == 1:
        only = inside[0]
        if only.is_dir() and (only / MANIFEST_NAME).is_file():
            return only
        if only.is_file() and only.suffix == ".py":
            return only
    hint = "a plugin is a folder with manifest.yaml at its top, or one Python file"
    raise bad_archive("there is no plugin at its top", hint=hint)


def _in_wheel(unpacked: Path, said: Path) -> Path:
    points = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=True)
    try:
        if said.stat().st_size > _ENTRY_POINTS_BYTES:
            raise bad_archive(f"its entry points are larger than {_ENTRY_POINTS_BYTES} bytes")
        points.read_string(said.read_text(encoding="utf-8"))
        found = dict(points[ENTRY_POINTS]) if points.has_section(ENTRY_POINTS) else {}
    except (configparser.Error, UnicodeDecodeError) as error:
        raise bad_archive("its entry points cannot be read") from error
    folder = unpacked.joinpath(*one_module(found).split("."))
    if not (folder / MANIFEST_NAME).is_file():
        raise bad_archive(f"its entry point names {folder.name}, where there is no {MANIFEST_NAME}")
    return folder


def one_module(points: Mapping[str, str]) -> str:
    """The module that the one entry point of a package names. Raises `InvalidRequest`."""
    modules = {value.partition(":")[0].strip() for value in points.values()}
    if len(modules) != 1:
        raise InvalidRequest(
            f"the package has {len(modules)} entry points of the group {ENTRY_POINTS}",
            hint=f"it needs one, whose value is the module with {MANIFEST_NAME}",
            field="package",
        )
    module = modules.pop()
    if not all(part.isidentifier() for part in module.split(".")):
        raise InvalidRequest(f"the entry point {module[:80]!a} is no module", hint="name a module", field="package")
    return module

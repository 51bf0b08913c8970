"""A plugin that came as a Python package into the host's own environment: where its folder is. Imports none of it."""

from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from bollard.host.errors import InvalidRequest, NotFound
from bollard.host.plugins.roots import ENTRY_POINTS, one_module
from bollard.wire.manifest_text import MANIFEST_NAME

__all__ = ["folder_of_package"]


def folder_of_package(name: str) -> tuple[Path, str]:
    """The plugin's folder, and name and version of the distribution. Raises `NotFound`, `InvalidRequest`."""
    try:
        distribution = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError) as error:
        raise NotFound(
            "there is no such package in the host's environment",
            hint="install it there first, with pip or uv; or send its wheel",
        ) from error
    points = {each.name: each.value for each in distribution.entry_points.select(group=ENTRY_POINTS)}
    module = one_module(points)
    top, *rest = module.split(".")
    for place in _places_of(top, distribution):
        folder = place.joinpath(*rest)
        if (folder / MANIFEST_NAME).is_file():
            return folder, f"{distribution.name}=={distribution.version}"
    raise InvalidRequest(
        f"the module {module} has no {MANIFEST_NAME}", hint="the package must ship it beside its code", field="package"
    )


def _places_of(top: str, distribution: metadata.Distribution) -> list[Path]:
    """Where the package lies. Nothing is imported: finding a module that is not inside another runs no code of it."""
    places = [Path(str(distribution.locate_file(top)))]
    spec = PathFinder.find_spec(top)
    if spec is not None and spec.submodule_search_locations is not None:
        places += [Path(place) for place in spec.submodule_search_locations]
    return places

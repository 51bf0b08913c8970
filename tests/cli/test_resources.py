"""The resources of the command line are those that the host declares."""

import importlib
import pkgutil

import pytest

import bollard.cli
from bollard.cli.client.documents import Resource
from bollard.host.api import RESOURCES
from bollard.host.http.resources.saved_routes import SavedRoutes


def _resources() -> dict[str, Resource]:
    """Every resource of a module of the command line, by its path."""
    found: dict[str, Resource] = {}
    for module in pkgutil.walk_packages(bollard.cli.__path__, "bollard.cli."):
        if "templates" not in module.name and not module.name.endswith("__main__"):
            names = vars(importlib.import_module(module.name)).values()
            found |= {each.path: each for each in names if isinstance(each, Resource)}
    return found


@pytest.mark.parametrize("resource", _resources().values(), ids=lambda resource: resource.path)
def test_a_resource_has_a_path_of_the_api(resource: Resource) -> None:
    paths = {operation.path for each in RESOURCES for operation in each.operations()}
    assert paths & {resource.path, f"{resource.path}/{{{resource.key}}}"}


def test_the_id_of_a_saved_resource_is_the_same_on_both_sides() -> None:
    declared = {each.resource.path: each.resource.id for each in RESOURCES if issubclass(each, SavedRoutes)}
    shared = {path: each.key for path, each in _resources().items() if path in declared}
    assert len(shared) > 5
    assert shared == {path: declared[path] for path in shared}

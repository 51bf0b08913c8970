"""The front door is a list, and everything behind it is documented."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
import typing

import pytest
from pydantic import BaseModel
from tests.tables import for_each

import bollard.protocol as front_door
from bollard.protocol import Shape, limits
from bollard.protocol.export import LIMITS, SHAPES

MODULES = sorted(
    found.name
    for found in pkgutil.iter_modules(front_door.__path__, "bollard.protocol.")
    if found.name not in ("bollard.protocol.export", "bollard.protocol.front_door")
)


def test_each_name_is_listed_by_one_module_and_exported_by_the_package() -> None:
    listed = [name for module in MODULES for name in getattr(importlib.import_module(module), "__all__", ())]
    assert sorted(["limits", *listed]) == front_door.__all__


def test_every_listed_name_exists() -> None:
    assert [name for name in front_door.__all__ if not hasattr(front_door, name)] == []


@for_each("module", MODULES)
def test_every_public_class_of_a_module_is_exported(module) -> None:
    loaded = importlib.import_module(module)
    public = {
        name
        for name, thing in vars(loaded).items()
        if inspect.isclass(thing) and thing.__module__ == module and not name.startswith("_")
    }
    assert public <= set(front_door.__all__)


def test_the_shapes_match_the_exports() -> None:
    assert set(SHAPES) < set(front_door.__all__)
    assert {"AgentRunContext", "AgentRunResult", "PluginManifest"} < set(SHAPES)
    assert not {"Shape", "Strict", "Tolerant"} & set(SHAPES)


@for_each("name", SHAPES)
def test_every_shape_has_a_docstring(name) -> None:
    own = vars(SHAPES[name]).get("__doc__")
    assert own
    assert own != Shape.__doc__
    assert own.rstrip().endswith((".", "…", ":"))


@for_each("name", SHAPES)
def test_every_referenced_shape_is_public(name) -> None:
    referred = {inner.__name__ for info in SHAPES[name].model_fields.values() for inner in models_in(info.annotation)}
    assert referred <= set(SHAPES)


def models_in(annotation: object) -> list[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in typing.get_args(annotation) for model in models_in(argument)]


def test_every_limit_has_its_meaning_beside_it() -> None:
    constants = {name for name in vars(limits) if name.isupper()}
    assert constants - {"KIB", "MIB", "PROTOCOL_VERSION"} == set(LIMITS)
    assert all(getattr(limits, name) > 0 for name in LIMITS)


@for_each("module", [*MODULES, "bollard.protocol", "bollard.protocol.export"])
def test_every_module_has_a_docstring(module) -> None:
    assert importlib.import_module(module).__doc__


def test_a_client_command_loads_no_shape() -> None:
    code = "import sys, bollard.cli.client.documents; assert 'bollard.protocol.front_door' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_refused_like_in_any_module() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = front_door.nonsense

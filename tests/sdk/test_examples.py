"""The examples run as they are written."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from bollard.sdk import declaration_of
from bollard.sdk.testing import MemoryHost

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("an_example", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", ["examples/single_file/echo.py", "plugins/echo/runner.py"])
async def test_the_echo_examples_answer(path):
    module = load(path)
    outcome = await MemoryHost().run(module.echo, "hello there")
    assert outcome.text == "you said: hello there"


def test_the_plugin_folder_declares_both_languages():
    declaration = declaration_of(load("plugins/echo/runner.py").echo)
    assert declaration is not None
    manifest = declaration.manifest("bollard", "echo")
    assert set(manifest.label) == {"en_US", "zh_Hans"}
    assert all("zh_Hans" in item.label for item in manifest.config_schema)

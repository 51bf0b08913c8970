"""The examples run as they are written."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from bollard.sdk import declaration_of
from bollard.sdk.testing import MemoryHost, ScriptedModel, tool_calls

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


async def test_an_agent_with_a_tool_is_shorter_than_25_lines_and_calls_it():
    text = (ROOT / "examples/single_file/tool_agent.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 25
    module = load("examples/single_file/tool_agent.py")
    model = ScriptedModel([tool_calls(("count_words", {"text": "a b c"})), "three"])
    host = MemoryHost(models={"default": model}, tools=[module.count_words])
    outcome = await host.run(module.writing_aid, "how long is a b c?")
    assert [message.content for message in outcome.messages] == ["", "3", "three"]


def test_the_guide_shows_the_example_unchanged():
    page = (ROOT / "docs/guides/write-an-agent.md").read_text(encoding="utf-8")
    assert (ROOT / "examples/single_file/tool_agent.py").read_text(encoding="utf-8") in page


def test_the_support_desk_with_its_tests_has_at_most_60_lines():
    files = sorted((ROOT / "examples/support_desk").glob("*.py"))
    assert [file.name for file in files] == ["support_desk.py", "test_support_desk.py"]
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= 60

"""The local agent as a plugin, in memory. The whole of it is tested in `tests/local_agent` of the repository."""

from pathlib import Path

import pytest
import yaml
from runner import Assistant

from bollard.protocol import FormItem
from bollard.sdk import declaration_of, form_of
from bollard.sdk.agent import AgentSettings as AgentConfig
from bollard.sdk.testing import MemoryHost, ScriptedModel, tool_calls

pytestmark = pytest.mark.anyio

MANIFEST = yaml.safe_load((Path(__file__).parents[1] / "manifest.yaml").read_text(encoding="utf-8"))


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


async def test_it_answers_with_the_default_model():
    outcome = await MemoryHost(models={"default": ScriptedModel(["hello yourself"])}).run(Assistant, "hello")
    assert (outcome.status, outcome.text) == ("completed", "hello yourself")


async def test_it_calls_a_tool_and_says_what_came_of_it():
    model = ScriptedModel([tool_calls(("weather", {"city": "Rome"})), "take a hat"])
    outcome = await MemoryHost(models={"default": model}, tools=[weather]).run(Assistant, "what do I wear in Rome?")
    assert [message.role for message in outcome.messages] == ["assistant", "tool", "assistant"]
    assert outcome.messages[-1].content == "take a hat"


def test_the_manifest_says_what_the_code_says():
    (said,) = MANIFEST["spec"]["runners"]
    declared = declaration_of(Assistant)
    assert declared is not None
    assert tuple(FormItem.model_validate(item) for item in said["config_schema"]) == form_of(AgentConfig)
    assert {name for name, able in declared.capabilities.model_dump().items() if able} == set(said["capabilities"])
    asked = {key: list(names) for key, names in declared.permissions.model_dump().items() if names}
    assert asked == said["permissions"]


def test_every_label_is_in_both_languages():
    for item in form_of(AgentConfig):
        for text in (item.label, item.description, *(option.label for option in item.options or ())):
            assert text is not None
            assert text.keys() >= {"en_US", "zh_Hans"}

"""The tools that a model is offered of the granted ones."""

from typing import Any

import pytest

from bollard.protocol import AgentRunContext, SkillResource
from bollard.sdk import Message, RunContext, tool
from bollard.sdk.agent import AgentSettings as AgentConfig
from bollard.sdk.agent.toolset import TOOLS_AT_MOST, append_to_prompt, build_toolset, skills_text
from bollard.sdk.testing import MemoryHost
from bollard.sdk.testing.live_run import HostCaller
from bollard.sdk.testing.occasion import build_context

pytestmark = pytest.mark.anyio


@tool(risk="low")
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def context(host: MemoryHost, **resources: Any) -> RunContext[Any]:
    opened = host.open(build_context("run-1", "hi", {}, config={}, now=0.0, timeout_s=None))
    whole: AgentRunContext = opened.context
    changed = whole.model_copy(update={"resources": whole.resources.model_copy(update=resources)})
    return RunContext(changed, HostCaller(host, "run-1"), {})


async def test_names_that_providers_refuse_are_replaced_and_still_reach_their_tool():
    found = await build_toolset(context(MemoryHost(tools={"mcp:files/read.it": weather})), AgentConfig())
    (function,) = found.functions
    assert function.function.name == "mcp_files_read_it"
    assert found.by_name["mcp_files_read_it"].target == "mcp:files/read.it"


async def test_the_order_is_always_the_same():
    names = ["c", "a", "b"]
    found = await build_toolset(context(MemoryHost(tools=dict.fromkeys(names, weather))), AgentConfig())
    assert [each.function.name for each in found.functions] == ["a", "b", "c"]


async def test_a_model_is_offered_a_limited_number_of_tools():
    tools = {f"tool_{number:03}": weather for number in range(TOOLS_AT_MOST + 5)}
    found = await build_toolset(context(MemoryHost(tools=tools)), AgentConfig())
    assert len(found.functions) == TOOLS_AT_MOST


async def test_a_tool_with_an_unreadable_definition_is_offered_by_its_description():
    host = MemoryHost(tools=[weather])
    host.deny("tools.detail", "runtime_error")
    (function,) = (await build_toolset(context(host), AgentConfig())).functions
    assert (function.function.name, function.function.description) == ("weather", "The weather of a city.")


async def test_an_agent_that_is_already_a_tool_is_offered_once():
    host = MemoryHost(tools={"agent:poet": weather}, agents={"poet": "roses", "cook": "soup"})
    found = await build_toolset(context(host), AgentConfig())
    assert {name: each.kind for name, each in found.by_name.items()} == {"agent_cook": "agent", "agent_poet": "tool"}


def test_skills_are_named_in_the_prompt():
    told = skills_text(context(MemoryHost(), skills=(SkillResource(skill_name="greeting", description="Greets."),)))
    assert told.endswith("- greeting: Greets.")
    assert skills_text(context(MemoryHost())) == ""


def test_appended_text_is_added_to_the_prompt_only():
    messages = [Message(role="system", content="You are kind."), Message(role="user", content="hi")]
    append_to_prompt(messages, "And patient.")
    assert [message.content for message in messages] == ["You are kind.\n\nAnd patient.", "hi"]
    without = [Message(role="user", content="hi")]
    append_to_prompt(without, "And patient.")
    assert [message.role for message in without] == ["system", "user"]


async def test_platform_actions_are_offered_if_the_settings_say_so():
    host = MemoryHost(tools=[weather], platform={"message.react": {"reacted": True}})
    assert list((await build_toolset(context(host), AgentConfig())).by_name) == ["weather"]
    found = await build_toolset(context(host), AgentConfig(platform_actions=True))
    assert {name: each.kind for name, each in found.by_name.items()} == {"message_react": "action", "weather": "tool"}
    needed = ["target", "message", "reaction", "channel"]
    assert found.functions[0].function.parameters["required"] == needed, "this run answers in no channel"
    narrowed = AgentConfig(platform_actions=True, only_tools=("message.react",))
    assert list((await build_toolset(context(host), narrowed)).by_name) == ["message_react"]

"""Agents that call agents, and skills in three steps, through a real host."""

from typing import Any

from tests.local_agent.host_kit import ACCESS, AgentHost

SKILL = """---
name: greeting
description: Greets people by the time of day.
---
Before noon say good morning.
"""


def offered(asked: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in asked.get("tools", [])]


def test_an_agent_calls_another_one_as_a_tool(agent_host: AgentHost) -> None:
    agent_host.save_agent("poet", prompt="You are a poet.")
    agent_host.save_agent("editor", tools=["agent:poet"])
    told = agent_host.run("editor", 'call poet {"text": "a line about rain"}')
    assert told.status == "completed"
    assert told.messages[1]["content"] == "You said: a line about rain"
    prompts = [asked["messages"][0]["content"] for asked in agent_host.asked()]
    assert [prompt.startswith("You are a poet.") for prompt in prompts] == [False, True, False]


def test_a_skill_is_named_in_the_prompt_and_read_on_demand(agent_host: AgentHost) -> None:
    files = [{"path": "SKILL.md", "text": SKILL}]
    kept = agent_host.client.put("/api/v1/skills/greeting", {"files": files})
    assert kept.status in (200, 201), kept.body
    resources = {"skills": {"add": ["greeting"]}, "tools": {"add": ["tool:builtin/activate"]}}
    agent_host.save_agent("greeter", policy={"access": {**ACCESS, "resources": resources}})
    told = agent_host.run("greeter", 'call activate {"skill": "greeting"}')
    assert told.status == "completed"
    first = agent_host.asked()[0]
    assert "- greeting: Greets people by the time of day." in first["messages"][0]["content"]
    assert "good morning" not in str(first["messages"][0])
    assert "activate" in offered(first)
    assert "Before noon say good morning." in told.messages[1]["content"]

"""LA-14: faults of providers, as bytes on a socket, and their effect on a run."""

import pytest
from tests.local_agent.host_kit import AgentHost


@pytest.mark.parametrize("fault", ["broken_sse", "half_utf8", "disconnect", "no_finish", "error_event"])
def test_la_14_an_interrupted_answer_fails_the_run_keeps_its_text_and_the_next_run_works(
    agent_host: AgentHost, fault: str
) -> None:
    agent_host.save_agent("careful", model={"primary": "main", "fallbacks": ["second"]})
    agent_host.provider.script({"text": "one two three 四五", "fault": fault, "after": 2})
    told = agent_host.run("careful", "speak", conversation=f"la-14-{fault}")
    assert (told.status, told.end["code"]) == ("failed", "runner.error")
    assert "the answer broke off" in told.end["error"]
    (message,) = told.messages
    assert message["content"] == "".join(told.deltas)
    assert message["content"].startswith("one")
    assert "\ufffd" not in message["content"]
    assert len(agent_host.asked()) == 1  # no model takes over in the middle of a message

    again = agent_host.run("careful", "again", conversation=f"la-14-{fault}")
    assert again.text == "You said: again"


@pytest.mark.parametrize("fault", ["broken_sse", "half_utf8", "disconnect", "empty_choices"])
def test_la_14_an_answer_that_never_starts_comes_from_the_next_model(agent_host: AgentHost, fault: str) -> None:
    agent_host.save_agent("careful", model={"primary": "main", "fallbacks": ["second"]})
    agent_host.provider.script({"text": "one two three", "fault": fault, "after": 0, "model": "main"})
    told = agent_host.run("careful", "speak")
    assert (told.status, told.text) == ("completed", "You said: speak")
    assert told.messages[0]["metadata"]["fallbacks"][0]["model"] == "main"


def test_la_14_a_provider_that_asks_to_wait_is_retried(any_host: AgentHost) -> None:
    any_host.save_model("patient", tries=2)
    any_host.save_agent("patient", model={"primary": "patient", "fallbacks": []})
    any_host.provider.script({"status": 429, "headers": {"retry-after": "1"}})
    told = any_host.run("patient", "hello")
    assert told.text == "You said: hello"
    assert len(any_host.asked()) == 2


def test_la_14_an_overloaded_provider_is_replaced_with_the_reason(agent_host: AgentHost) -> None:
    agent_host.save_agent("careful", model={"primary": "main", "fallbacks": ["second"]})
    agent_host.provider.script({"status": 429, "headers": {"retry-after": "60"}, "model": "main"})
    told = agent_host.run("careful", "hello")
    assert told.text == "You said: hello"
    (fallback,) = told.messages[0]["metadata"]["fallbacks"]
    assert (fallback["code"], fallback["reason"]) == ("rate_limited", "rate_limited")


def test_la_14_a_question_too_long_for_the_model_is_shortened_once(agent_host: AgentHost) -> None:
    agent_host.save_agent("short")
    agent_host.provider.script({"status": 400, "error_code": "context_length_exceeded"})
    told = agent_host.run("short", "a long story " * 200)
    assert told.status == "completed"
    first, second = (len(str(asked["messages"])) for asked in agent_host.asked())
    assert second < first


def test_la_14_the_model_learns_of_broken_tool_calls(agent_host: AgentHost) -> None:
    agent_host.save_agent("errands", tools=["tool:local/errands/weather"])
    agent_host.provider.script(
        {"tool_calls": [{"name": "weather", "arguments": '{"city": "Ro'}], "bytewise": True, "noise": True},
        {"tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}}], "bytewise": True},
        {"text": "sunny"},
    )
    told = agent_host.run("errands", "the weather?")
    assert told.text == "sunny"
    results = [message["content"] for message in told.messages if message["role"] == "tool"]
    assert "no JSON object" in results[0]
    assert results[1] == "sunny in Rome"

"""LA-01, LA-03, LA-07, LA-08: answers through a real host, a worker process and a provider's own format."""

from typing import Any

import pytest
from tests.local_agent.host_kit import AgentHost

THREE: dict[str, Any] = {"primary": "main", "fallbacks": ["second", "third"]}


def test_la_01_the_prompt_of_the_agent_is_the_first_message(agent_host: AgentHost) -> None:
    agent_host.save_agent("keeper", prompt="You keep a lighthouse. 你看守灯塔。", temperature=0.1, max_tokens=64)
    told = agent_host.run("keeper", "who are you?")
    assert (told.status, told.text) == ("completed", "You said: who are you?")
    (asked,) = agent_host.asked()
    assert [message["role"] for message in asked["messages"]] == ["system", "user"]
    assert asked["messages"][0]["content"].startswith("You keep a lighthouse. 你看守灯塔。")
    assert (asked["model"], asked["temperature"], asked["max_tokens"]) == ("main", 0.1, 64)


def test_la_03_an_answer_streams_from_the_provider_to_the_reader(agent_host: AgentHost) -> None:
    agent_host.save_agent("streams")
    agent_host.provider.script({"text": "one two three 四五六", "bytewise": True, "noise": True})
    told = agent_host.run("streams", "go")
    assert "".join(told.deltas) == told.text == "one two three 四五六"
    assert len(told.deltas) > 2
    assert agent_host.asked()[0]["stream"] is True
    (message,) = told.messages
    assert message["usage"]["completion_tokens"] > 0
    assert message["metadata"]["model"] == "main"


def test_la_03_an_agent_without_streaming_sends_one_message(agent_host: AgentHost) -> None:
    agent_host.save_agent("whole", streaming=False)
    agent_host.provider.script({"text": "one two three"})
    told = agent_host.run("whole", "go")
    assert (told.text, told.deltas) == ("one two three", [])
    assert not agent_host.asked()[0].get("stream")


def test_la_07_after_a_failure_of_the_primary_model_the_next_one_answers_with_a_record(agent_host: AgentHost) -> None:
    agent_host.save_agent("three", model=THREE)
    agent_host.provider.script({"status": 503, "model": "main"}, {"status": 401, "model": "second"})
    told = agent_host.run("three", "hello")
    assert (told.status, told.text) == ("completed", "You said: hello")
    (message,) = told.messages
    assert message["metadata"]["model"] == "third"
    assert [(each["model"], each["reason"]) for each in message["metadata"]["fallbacks"]] == [
        ("main", "overloaded"),
        ("second", "unauthorized"),
    ]
    calls = [(call["model_id"], call["status"], call.get("reason")) for call in told.of("model.called")]
    assert calls == [
        ("main", "failed", "overloaded"),
        ("second", "failed", "unauthorized"),
        ("third", "completed", None),
    ]


def test_la_07_if_all_models_fail_the_run_has_the_reasons_and_the_next_message_works(agent_host: AgentHost) -> None:
    agent_host.save_agent("fails", model=THREE)
    agent_host.provider.script(*({"status": 500, "model": model} for model in ("main", "second", "third")))
    told = agent_host.run("fails", "hello", conversation="la-07")
    assert (told.status, told.end["code"]) == ("failed", "runner.error")
    assert "no model could answer" in told.end["error"]
    origin = agent_host.provider.url.removesuffix("/v1")
    failed = [f"{model} ({origin}): overloaded, HTTP 500" for model in ("main", "second", "third")]
    assert all(each in told.end["error"] for each in failed), "its id, its address and the status"
    assert not told.messages
    assert agent_host.run("fails", "again", conversation="la-07").text == "You said: again"


def test_la_07_an_ungranted_model_is_not_called(agent_host: AgentHost) -> None:
    policy = {"access": {"permissions": {"models": ["stream"]}, "resources": {"models": {"only": ["second"]}}}}
    agent_host.save_agent("narrow", model={"primary": "main", "fallbacks": ["second"]}, policy=policy)
    told = agent_host.run("narrow", "hello")
    assert told.text == "You said: hello"
    assert [asked["model"] for asked in agent_host.asked()] == ["second"]


def test_la_08_an_empty_answer_is_retried_and_never_a_blank_success(agent_host: AgentHost) -> None:
    agent_host.save_agent("mute")
    agent_host.provider.script({"text": "", "times": 2})
    told = agent_host.run("mute", "hello")
    assert (told.status, told.end["code"]) == ("failed", "runner.no_output")
    assert not told.messages
    assert len(agent_host.asked()) == 2

    agent_host.provider.reset()
    agent_host.provider.script({"text": ""}, {"text": "sorry, I am here"})
    assert agent_host.run("mute", "hello").text == "sorry, I am here"


@pytest.mark.parametrize("reason", ["content_filter", "length"])
def test_la_08_reasoning_alone_is_not_an_answer(agent_host: AgentHost, reason: str) -> None:
    agent_host.save_agent("thinker")
    agent_host.provider.script({"reasoning": "hm hm", "finish_reason": reason, "times": 2})
    told = agent_host.run("thinker", "hello")
    assert told.end["code"] == "runner.no_output"
    assert reason in told.end["error"]

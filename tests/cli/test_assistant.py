"""The agent of the host answers with the built-in model, or with the model of the environment."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cli.conftest import RunningHost
from tests.local_agent.provider_kit import RunningProvider, start_provider, stop_provider

KEY = "sesame-of-a-test"
RULES = "Breakfast is served from seven to ten in the garden room.\n\nLeave the key at the desk when you go out.\n"


@pytest.fixture(scope="module")
def own_provider() -> Iterator[RunningProvider]:
    process, running = start_provider("--key", KEY)
    try:
        yield running
    finally:
        stop_provider(process)


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory, own_provider: RunningProvider) -> Iterator[RunningHost]:
    """A fresh host whose environment names a model; nothing else was set up."""
    running = RunningHost(tmp_path_factory.mktemp("connected"))
    variables = {"OPENAI_BASE_URL": own_provider.url, "OPENAI_MODEL": "loopback", "OPENAI_API_KEY": KEY}
    try:
        yield running.start(**variables)
    finally:
        running.close()


def messages_of(lines: list[Any]) -> list[dict[str, Any]]:
    return [line["data"]["message"] for line in lines if line["type"] == "message.completed"]


def test_without_a_configured_model_the_demo_model_answers(host, bollard) -> None:
    done = bollard("chat", "--json", "--agent", "assistant", "--message", "hello", **host.variables)
    assert done.code == 0, done.err
    (said,) = messages_of(done.lines)
    assert said["content"] == "You said: hello"
    assert said["metadata"]["model"] == "default"


def test_the_model_of_the_environment_answers_and_its_key_is_shown_nowhere(
    connected: RunningHost, bollard, own_provider: RunningProvider
) -> None:
    own_provider.reset()
    done = bollard("chat", "--json", "--agent", "assistant", "--message", "hello", **connected.variables)
    assert done.code == 0, done.err
    (asked,) = own_provider.bodies("/chat/completions")
    assert (asked["model"], asked["messages"][-1]["content"]) == ("loopback", "hello")
    run_id = next(line["run_id"] for line in done.lines if line["type"] == "message.completed")
    records = bollard("runs", "records", run_id, **connected.variables).out
    assert "model.called" in records
    shown = (
        records + done.out + done.err + connected.log + bollard("models", "show", "openai", **connected.variables).out
    )
    assert KEY not in shown


def test_with_a_real_model_a_chat_uses_the_assistant_and_gives_the_reason(
    connected: RunningHost, bollard, own_provider: RunningProvider
) -> None:
    own_provider.reset()
    done = bollard("chat", "--verbose", "--message", "hello", **connected.variables)
    assert done.code == 0, done.err
    title, reason, *_ = done.err.splitlines()
    assert title.startswith(f"Local agent assistant at {connected.url}, conversation cli-")
    assert reason == "  Default agent, as the model openai is configured; --agent chooses another."
    assert len(own_provider.bodies("/chat/completions")) == 1


def test_with_a_real_model_the_assistant_calls_a_tool_and_cites_a_document(
    connected: RunningHost, bollard, write, own_provider: RunningProvider
) -> None:
    def done(*arguments: str, stdin: str = "") -> Any:
        ended = bollard(*arguments, stdin=stdin, **connected.variables)
        assert ended.code == 0, ended.err
        return ended

    own_provider.reset()
    done("knowledge", "add", "house", "--name", "House rules")
    done("knowledge", "put", "house", str(write("rules.txt", RULES)))
    agent = done("agents", "show", "assistant", "--json").json
    agent["config"] |= {"tools": ["tool:builtin/calculate"], "knowledge_bases": ["house"]}
    done("agents", "save", "-", stdin=json.dumps(agent))

    wanted = ("--message", 'call calculate {"expression": "6 * 7"}', "--message", "When is breakfast?")
    said = messages_of(done("chat", "--json", "--agent", "assistant", *wanted).lines)
    assert [message["role"] for message in said] == ["assistant", "tool", "assistant", "assistant"]
    assert said[0]["tool_calls"][0]["function"]["name"] == "calculate"
    assert said[2]["content"] == "The tools returned: 42"
    assert said[3]["content"] == "Breakfast is served from seven to ten in the garden room. [1]"
    (cited,) = said[3]["metadata"]["citations"]
    assert (cited["kb_id"], cited["name"]) == ("house", "rules.txt")
    assert {asked["model"] for asked in own_provider.bodies("/chat/completions")} == {"loopback"}

"""The agent that comes with the host answers with the built-in model, or with the one that the environment names."""

from collections.abc import Iterator

import pytest
from tests.local_agent.provider_kit import RunningProvider, start_provider, stop_provider


@pytest.fixture
def own_provider() -> Iterator[RunningProvider]:
    process, running = start_provider("--key", "sesame-of-a-test")
    try:
        yield running
    finally:
        stop_provider(process)


def test_without_a_model_of_its_own_a_host_answers_with_the_built_in_one(host, bollard) -> None:
    done = bollard("chat", "--agent", "assistant", "--message", "hello", **host.variables)
    assert done.code == 0, done.err
    said = [line["data"]["message"] for line in done.lines if line["type"] == "message.completed"]
    assert [message["content"] for message in said] == ["You said: hello"]
    assert said[0]["metadata"]["model"] == "default"


def test_the_model_that_the_environment_names_answers_and_its_key_is_shown_nowhere(
    new_host, bollard, own_provider: RunningProvider
) -> None:
    variables = {
        "OPENAI_BASE_URL": own_provider.url,
        "OPENAI_MODEL": "loopback",
        "OPENAI_API_KEY": "sesame-of-a-test",
    }
    host = new_host().start(**variables)
    done = bollard("chat", "--agent", "assistant", "--message", "hello", **host.variables)
    assert done.code == 0, done.err
    (asked,) = own_provider.bodies("/chat/completions")
    assert (asked["model"], asked["messages"][-1]["content"]) == ("loopback", "hello")
    run_id = next(line["run_id"] for line in done.lines if line["type"] == "message.completed")
    records = bollard("runs", "records", run_id, **host.variables).out
    assert "model.called" in records
    shown = records + done.out + done.err + host.log + bollard("models", "show", "openai", **host.variables).out
    assert "sesame-of-a-test" not in shown

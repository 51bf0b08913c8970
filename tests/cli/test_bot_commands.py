"""`bollard bots`, and `bollard agents disable` and `enable`, against a real host."""

import json

import pytest


@pytest.fixture
def ask(bollard, steady_host):
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


def test_a_bot_is_saved_listed_shown_and_deleted(ask) -> None:
    assert ask("bots", "--text").out == "There are no bots.\n"
    body = json.dumps({"bot_id": "polly", "label": {"en_US": "Polly"}, "agent_id": "echo"})
    assert ask("bots", "save", "-", "--text", stdin=body).out == "saved bot polly, revision 1\n"
    assert "polly" in ask("bots", "--text").out
    assert ask("bots", "show", "polly", "--text").out == "polly: Polly\ndefault agent: echo\nchannels: none\n"
    assert "默认智能体：echo" in ask("bots", "show", "polly", "--text", BOLLARD_LANG="zh_Hans").out
    assert ask("bots", "delete", "polly", "--text").out == "deleted bot polly\n"


def test_an_agent_is_disabled_and_enabled(ask) -> None:
    assert ask("agents", "disable", "echo", "--text").out.startswith("disabled agent echo: it gets no events")
    assert "(disabled)" in ask("agents", "--text").out
    assert "enabled: no" in ask("agents", "show", "echo", "--text").out
    refused = ask("chat", "--agent", "echo", "--message", "hello")
    assert refused.code != 0
    assert "agent echo is disabled" in refused.err
    assert ask("agents", "enable", "echo", "--text").out.startswith("enabled agent echo\n")
    ask("agents", "delete", "echo")

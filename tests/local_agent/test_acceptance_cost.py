"""The cost of a run, through a real host: models with a price, an agent with a limit, and a run that reports it."""

from typing import Any

import pytest
from tests.local_agent.host_kit import WEATHER, AgentHost
from tests.local_agent.test_acceptance_context import seeded

STOPPED = "I stop here: this run has cost what it may cost. Write again to go on."
ONLY_DEAR: dict[str, Any] = {"primary": "dear", "fallbacks": []}
MUCH = {"prompt_tokens": 60_000, "completion_tokens": 1_000}
"""0.62 by the prices below."""


def with_prices(host: AgentHost) -> None:
    host.save_model("dear", price={"input": 10, "output": 20, "currency": "EUR"}, context_window=3000)


def test_a_run_that_reaches_its_cost_limit_stops_with_a_notice(agent_host: AgentHost) -> None:
    with_prices(agent_host)
    agent_host.save_agent("thrifty", model=ONLY_DEAR, tools=[WEATHER], max_cost=0.5)
    call = {"tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}}]}
    agent_host.provider.script({**call, "usage": MUCH})
    told = agent_host.run("thrifty", "the weather?", conversation="thrifty")
    assert (told.status, told.text) == ("completed", STOPPED)
    last = told.messages[-1]
    assert (last["finish_reason"], last["metadata"]["stopped"]) == ("max_cost", "max_cost")
    assert told.of("run.completed") == [{"finish_reason": "max_cost"}]
    assert len(agent_host.asked()) == 1
    (asked,) = told.of("model.called")
    assert (asked["cost"], asked["currency"]) == (pytest.approx(0.62), "EUR")
    run = agent_host.client.get(f"/api/v1/runs/{told.run_id}").json
    assert run["usage"]["cost"] == {"EUR": pytest.approx(0.62)}

    again = agent_host.run("thrifty", "and now?", conversation="thrifty")
    assert again.text == "You said: and now?"


def test_a_summary_counts_in_the_cost_limit(agent_host: AgentHost) -> None:
    with_prices(agent_host)
    seeded(agent_host, "talk", "200 Remember that the code is 7341.", "dear-talk")
    agent_host.save_agent("saver", model=ONLY_DEAR, max_cost=0.5)
    agent_host.provider.script({"contains": "<messages>", "text": "The code is 7341.", "usage": MUCH})
    told = agent_host.run("saver", "what is the code?", conversation="dear-talk")
    assert (told.status, told.text) == ("completed", STOPPED)
    assert [call["cost"] for call in told.of("model.called")] == [pytest.approx(0.62)]

    again = agent_host.run("saver", "what is it?", conversation="dear-talk")
    assert again.text == "You said: what is it?"
    assert "The code is 7341." in str(agent_host.asked()[1]["messages"])  # the paid summary is kept

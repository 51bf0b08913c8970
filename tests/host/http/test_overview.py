"""The overview: runs by hour and outcome, failures, cost, waiting people and problems, for what its reader may see."""

from typing import Any

import pytest

PASSWORD = "correct horse battery"


def overview(api: Any, query: str = "") -> Any:
    answer = api.get(f"/api/v1/overview{query}")
    assert answer.status == 200, answer.body
    return answer.json


def agent(found: Any, agent_id: str) -> Any:
    return next((each for each in found["agents"] if each["agent_id"] == agent_id), None)


def test_runs_are_counted_by_hour_outcome_agent_and_failure(api: Any) -> None:
    api.save_agent("counted")
    for text in ("one", "two"):
        api.ended(api.tell("counted", text).json["run_id"])
    failed = api.tell("counted", "die").json["run_id"]
    reason = api.ended(failed)["status_reason"]
    found = overview(api)
    assert (found["complete"], found["hidden_agents"], len(found["hours"])) == (True, 0, 24)
    mine = agent(found, "counted")
    assert (mine["runs"], mine["failed"], mine["tokens"], mine["cost"]) == (3, 1, 0, {})
    assert sum(hour["completed"] for hour in found["hours"]) >= 2
    failure = next(each for each in found["failures"] if each["code"] == reason)
    assert failure["last_run_id"] == failed
    assert found["first_delta"]["runs"] >= 2
    assert 0 <= found["first_delta"]["p50_ms"] <= found["first_delta"]["p95_ms"]
    assert found["waiting"] == {"approvals": 0, "questions": 0}
    assert len(overview(api, "?hours=1")["hours"]) == 1


def test_an_active_run_counts_as_active_until_it_ends(api: Any) -> None:
    api.save_agent("slow")
    run_id = api.tell("slow", "wait").json["run_id"]
    before = overview(api)["hours"][-1]["active"] + overview(api)["hours"][-2]["active"]
    assert before >= 1
    assert api.post(f"/api/v1/runs/{run_id}/cancel").status == 202
    api.ended(run_id)
    found = overview(api)
    assert sum(hour["active"] for hour in found["hours"]) < before
    assert agent(found, "slow")["runs"] == 1


def test_a_reader_gets_no_numbers_of_agents_whose_runs_it_may_not_see(api: Any, client_of: Any) -> None:
    api.save_agent("secretive", audience={"see": {"who": "participants"}})
    api.save_agent("frank", audience={"see": {"who": "everyone"}})
    for agent_id in ("secretive", "frank"):
        api.ended(api.tell(agent_id, "hello").json["run_id"])
    assert api.put("/api/v1/users/vera", {"role": "viewer", "password": PASSWORD}).status == 201
    token = api.post("/api/v1/session", {"user": "vera", "password": PASSWORD}, token=None).json["token"]
    found = overview(client_of(api.port, token))
    assert agent(found, "frank")["runs"] == 1
    assert agent(found, "secretive") is None
    assert found["hidden_agents"] >= 1


@pytest.mark.parametrize("query", ["?hours=0", "?hours=169", "?hours=all", "?days=1"])
def test_a_wrong_number_of_hours_is_refused(api: Any, query: str) -> None:
    answer = api.get(f"/api/v1/overview{query}")
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument")


def test_a_server_that_is_down_needs_attention(api: Any) -> None:
    body = {"command": "/nowhere/at/all"}
    assert api.put("/api/v1/mcp-servers/broken", body).status == 201
    found = api.until("/api/v1/overview", lambda shown: any(each["id"] == "broken" for each in shown["problems"]))
    problem = next(each for each in found["problems"] if each["id"] == "broken")
    assert (problem["kind"], problem["reason"], bool(problem["message"])) == ("mcp_server", "mcp_waiting", True)
    assert api.delete("/api/v1/mcp-servers/broken").status == 200

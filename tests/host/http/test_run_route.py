"""How the event of a run found its agent, explained after the fact."""

from typing import Any


def route(api: Any, run_id: str, query: str = "") -> Any:
    answer = api.get(f"/api/v1/runs/{run_id}/route{query}")
    assert answer.status == 200, answer.body
    return answer.json


def test_an_event_that_names_its_agent_is_direct(api: Any) -> None:
    found = route(api, api.say("hello"))
    assert (found["via"], found["binding_id"], found["current"]) == ("direct", "direct:parrot", True)
    assert "parrot" in found["steps"][0]["text"]


def test_a_binding_is_explained_and_a_changed_one_is_named(api: Any) -> None:
    api.save_agent("listener")
    binding = {"agent_id": "listener", "scope": {"conversation": "route-desk"}}
    assert api.put("/api/v1/bindings/route-desk", binding).status == 201
    event = {"source": "forge", "id": "route-1", "type": "build.failed", "conversation": "route-desk", "text": "red"}
    run_id = api.post("/api/v1/events", event).json["run_id"]
    found = route(api, run_id)
    assert (found["via"], found["binding_id"], found["current"]) == ("binding", "route-desk", True)
    assert "won" in [step["key"] for step in found["steps"] if step.get("binding") == "route-desk"]
    assert route(api, run_id, "?locale=zh_Hans")["steps"][0]["text"] != found["steps"][0]["text"]
    assert api.delete("/api/v1/bindings/route-desk").status == 200
    changed = route(api, run_id)
    assert (changed["binding_id"], changed["current"]) == ("route-desk", False)


def test_a_run_that_is_not_there_has_no_route(api: Any) -> None:
    assert api.get("/api/v1/runs/run_nobody/route").status == 404


def test_deliveries_and_approvals_are_found_by_run(api: Any) -> None:
    run_id = api.say("nothing to deliver")
    for path in ("deliveries", "approvals"):
        answer = api.get(f"/api/v1/{path}?run={run_id}")
        assert (answer.status, answer.json["items"]) == (200, []), path

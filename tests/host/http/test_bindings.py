"""Bindings over HTTP: saved, shown, deleted; the agent of an event, and the reason."""

from typing import Any

import pytest

EVENT = {"source": "forge", "type": "message.received", "text": "hello"}


@pytest.fixture
def bound(shop: Any) -> Any:
    """A host without bindings, afterwards too."""
    yield shop
    for item in shop.get("/api/v1/bindings").json["items"]:
        shop.delete(f"/api/v1/bindings/{item['binding_id']}")


def bind(shop: Any, binding_id: str, **body: Any) -> Any:
    answer = shop.put(f"/api/v1/bindings/{binding_id}", {"agent_id": "parrot", **body})
    assert answer.status in (200, 201), answer.body
    return answer.json


def test_a_binding_is_saved_shown_changed_and_deleted(bound: Any) -> None:
    body = {"agent_id": "parrot", "scope": {"conversation": "room"}, "priority": 3}
    created = bound.put("/api/v1/bindings/room", body)
    assert (created.status, created.json["revision"], created.json["enabled"]) == (201, 1, True)
    assert bound.get("/api/v1/bindings/room").json == created.json
    assert bound.get("/api/v1/bindings").json == {"items": [created.json], "has_more": False}
    changed = bound.put("/api/v1/bindings/room", {**created.json, "priority": 4})
    assert (changed.status, changed.json["revision"], changed.json["priority"]) == (200, 2, 4)
    stale = bound.put("/api/v1/bindings/room", created.json)
    assert (stale.status, stale.error["details"]["revision"]) == (409, 2)
    assert bound.delete("/api/v1/bindings/room?revision=1").status == 409
    assert bound.delete("/api/v1/bindings/room").json == {"binding_id": "room", "deleted": True}
    assert bound.get("/api/v1/bindings/room").status == 404
    assert bound.delete("/api/v1/bindings/room").error["code"] == "not_found"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "binding.agent_id"),
        ({"agent_id": "nobody"}, "binding.agent_id"),
        ({"agent_id": "parrot", "binding_id": "other"}, "binding_id"),
        ({"agent_id": "parrot", "revision": "1"}, "binding.revision"),
        ({"agent_id": "parrot", "revision": True}, "binding.revision"),
        ({"agent_id": "parrot", "scope": {"thread": "t"}}, "binding.scope.thread"),
        ({"agent_id": "parrot", "scope": {"room": "t"}}, "binding.scope.room"),
        ({"agent_id": "parrot", "priority": 1001}, "binding.priority"),
        ({"agent_id": "parrot", "filters": [{"field": "colour", "values": ["red"]}]}, "binding.filters.0.field"),
    ],
)
def test_an_invalid_binding_is_refused_by_its_field(bound: Any, body: Any, field: str) -> None:
    answer = bound.put("/api/v1/bindings/wrong", body)
    assert (answer.status, answer.error["details"]["field"]) == (400, field), answer.body
    assert answer.error["hint"]
    assert bound.get("/api/v1/bindings").json == {"items": [], "has_more": False}


@pytest.mark.requirement("P12-01")
def test_two_bindings_that_match_equally_are_refused_when_saved(bound: Any) -> None:
    bind(bound, "one", scope={"conversation": "room"})
    answer = bound.put("/api/v1/bindings/two", {"agent_id": "parrot", "scope": {"conversation": "room"}})
    assert (answer.status, answer.error["code"]) == (409, "conflict")
    assert "one" in answer.error["message"]


def test_an_agent_of_a_binding_is_not_deleted(bound: Any) -> None:
    bound.save_agent("needed")
    bind(bound, "here", agent_id="needed", scope={"conversation": "a"})
    bind(bound, "there", agent_id="needed", scope={"conversation": "b"})
    answer = bound.delete("/api/v1/agents/needed")
    assert (answer.status, answer.error["details"]["bindings"]) == (409, "here, there")
    for name in ("here", "there"):
        bound.delete(f"/api/v1/bindings/{name}")
    assert bound.delete("/api/v1/agents/needed").status == 200


def test_an_event_without_an_agent_follows_the_most_specific_binding(bound: Any) -> None:
    lonely = bound.post("/api/v1/events", {**EVENT, "id": "early"})
    assert (lonely.status, lonely.json["run_id"], lonely.json["reason"]["code"]) == (202, None, "no_binding")
    bound.save_agent("doorman")
    bind(bound, "everything")
    bind(bound, "door", agent_id="doorman", scope={"bot": "front", "conversation": "door"})
    first = bound.post("/api/v1/events", {**EVENT, "id": "1", "conversation": "door", "bot": "front"})
    second = bound.post("/api/v1/events", {**EVENT, "id": "2", "conversation": "hall", "bot": "front"})
    runs = [bound.get(f"/api/v1/runs/{answer.json['run_id']}").json for answer in (first, second)]
    assert [(run["agent_id"], run["binding_id"]) for run in runs] == [("doorman", "door"), ("parrot", "everything")]
    assert runs[0]["bot_id"] == "front"
    again = bound.post("/api/v1/events", {**EVENT, "id": "early"})
    assert (again.status, again.json) == (200, {**lonely.json, "first": False})  # its outcome has not changed


def test_the_key_of_a_request_names_an_event(bound: Any) -> None:
    body = {**EVENT, "agent": "parrot"}
    first = bound.post("/api/v1/events", body, idempotency_key="delivery-77")
    again = bound.post("/api/v1/events", {**body, "id": "delivery-77"})
    assert again.json == {**first.json, "first": False}


# --- what would happen ---


def test_resolving_explains_every_binding_and_changes_nothing(bound: Any) -> None:
    bind(bound, "everything")
    bind(bound, "door", agent_id="workshop.steady", scope={"conversation": "door"})
    bind(bound, "off", scope={"conversation": "door"}, enabled=False, priority=1)
    before = bound.until_health(lambda health: not health["runs"]["live"])["journal"]["records"]
    found = bound.post("/api/v1/bindings/resolve", {"source": "forge", "conversation": "door"}).json
    assert (found["binding"], found["agent"], found["decision"]) == ("door", "workshop.steady", {"kind": "start"})
    assert {step["binding"]: step["key"] for step in found["steps"]} == {
        "door": "won",
        "everything": "outranked_by_scope",
        "off": "disabled",
    }
    assert all("door" in step["text"] or step["binding"] in step["text"] for step in found["steps"])
    assert found["refused"] is None
    assert found["grant"]["operations"] == ["history.page", "state.conversation", "steering.pull"]
    assert (found["grant"]["steerable"], found["grant"]["state"]) == (True, ["conversation"])
    chinese = bound.post("/api/v1/bindings/resolve", {"conversation": "door", "locale": "zh_Hans"}).json
    assert any("绑定 door" in step["text"] for step in chinese["steps"])
    assert bound.get("/readyz").json["journal"]["records"] == before


def test_resolving_an_event_without_a_binding_names_the_reason(bound: Any) -> None:
    found = bound.post("/api/v1/bindings/resolve", {}).json
    assert (found["binding"], found["agent"], found["decision"], found["grant"]) == (None, None, None, None)
    assert [step["key"] for step in found["steps"]] == ["no_binding"]
    named = bound.post("/api/v1/bindings/resolve", {"agent": "nobody"}).json
    assert ([step["key"] for step in named["steps"]], named["agent"]) == (["direct", "no_agent"], None)


def test_resolving_names_the_closed_gate_and_the_run_that_would_be_steered(bound: Any) -> None:
    bound.save_agent("closed", gate={"talk": "listed", "actors": ["user:ada"]})
    refused = bound.post("/api/v1/bindings/resolve", {"agent": "closed", "actor": {"id": "bob"}}).json["refused"]
    assert (refused["code"], bool(refused["message"]), bool(refused["hint"])) == ("unauthorized", True, True)
    ada = {"conversation": "resolved", "actor": {"id": "ada"}}
    run_id = bound.tell("workshop.steady", "go", **ada).json["run_id"]
    stream = bound.stream(run_id)
    stream.until("message.delta")
    steered = bound.post("/api/v1/bindings/resolve", {"agent": "workshop.steady", **ada}).json
    other = bound.post("/api/v1/bindings/resolve", {"agent": "workshop.steady", **ada, "actor": {"id": "bob"}}).json
    assert steered["decision"] == {"kind": "steer", "run_ids": [run_id]}
    assert other["decision"] == {"kind": "queue"}
    for mode, decision in (
        ("interrupt", {"kind": "interrupt", "run_ids": [run_id]}),
        (
            "reject",
            {"kind": "reject", "message": "the agent is busy with this conversation and takes one message at a time"},
        ),
    ):
        bound.save_agent("workshop.steady", "workshop/steady", concurrency={"mode": mode})
        assert bound.post("/api/v1/bindings/resolve", {"agent": "workshop.steady", **ada}).json["decision"] == decision
    bound.delete("/api/v1/agents/workshop.steady")
    bound.post(f"/api/v1/runs/{run_id}/cancel")
    list(stream)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"locale": "de_DE"}, "locale"),
        ({"colour": 1}, "colour"),
        ({"actor": "ada"}, "actor"),
        ({"trigger": "x"}, "trigger"),
    ],
)
def test_an_invalid_resolve_request_is_refused(bound: Any, body: Any, field: str) -> None:
    answer = bound.post("/api/v1/bindings/resolve", body)
    assert (answer.status, answer.error["details"]["field"]) == (400, field)

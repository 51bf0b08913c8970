"""Agents that call agents: a child run of its own, that ends with its parent and goes no deeper than four."""

from typing import Any

import pytest

CALL = {"access": {"permissions": {"agents": ["call"]}}}


@pytest.fixture
def family(shop: Any) -> Any:
    shop.save_agent("child")
    add = {"resources": {"agents": {"add": ["child"]}}, **CALL["access"]}
    shop.save_agent("boss", "workshop/caller", access=add)
    return shop


def last_words(events: list[Any]) -> str:
    return next(event for event in events if event.type == "message.completed").data["data"]["message"]["content"]


def test_a_run_calls_another_agent_and_gets_its_answer(family: Any) -> None:
    run_id = family.tell("boss", "child hello there").json["run_id"]
    assert last_words(family.read(run_id)) == "completed < hello there "
    (child,) = family.get(f"/api/v1/runs?parent={run_id}").json["items"]
    assert (child["parent_run_id"], child["agent_id"], child["status"]) == (run_id, "child", "completed")
    assert family.get(f"/api/v1/runs?parent={run_id}&agent=boss").json["items"] == []
    assert family.get(f"/api/v1/runs?parent={run_id}&status=failed").json["items"] == []
    assert family.get(f"/api/v1/runs?parent={child['run_id']}").json["items"] == []
    assert family.get("/api/v1/runs?parent=nobody").json == {"items": [], "has_more": False}


def test_a_child_ends_when_its_parent_is_cancelled(family: Any) -> None:
    run_id = family.tell("boss", "child wait").json["run_id"]
    path = f"/api/v1/runs?parent={run_id}"
    (child,) = family.until(path, lambda page: page["items"] and page["items"][0]["status"] == "running")["items"]
    assert family.post(f"/api/v1/runs/{run_id}/cancel").status == 202
    assert family.ended(run_id)["status"] == "cancelled"
    assert family.ended(child["run_id"])["status"] == "cancelled"


def test_an_agent_that_is_not_granted_is_not_there(family: Any) -> None:
    run_id = family.tell("boss", "parrot hello").json["run_id"]
    assert last_words(family.read(run_id)) == "refused not_found"
    assert family.get(f"/api/v1/runs?parent={run_id}").json["items"] == []


@pytest.mark.requirement("P06-16")
def test_agents_called_by_agents_go_four_deep(family: Any) -> None:
    access = {"resources": {"agents": {"add": ["nest"]}}, **CALL["access"]}
    family.save_agent("nest", "workshop/caller", access=access)
    run_id = family.tell("nest", "nest").json["run_id"]
    assert last_words(family.read(run_id)) == "completed < " * 4 + "refused unauthorized"
    depth = 0
    while children := family.get(f"/api/v1/runs?parent={run_id}").json["items"]:
        ((run_id),) = (child["run_id"] for child in children)
        depth += 1
    assert depth == 4
    (why,) = family.get(f"/api/v1/runs/{run_id}/explain?action=agents.call&thing=nest").json["items"]
    assert (why["allowed"], why["reasons"][0]["layer"]) == (False, "parent")

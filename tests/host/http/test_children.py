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


def test_a_child_knows_people_by_the_bot_that_its_caller_serves(family: Any) -> None:
    """Who is called the same at another bot is another, also below (F49)."""
    keys = {}
    for bot in ("telegram", "slack"):
        event = {
            "source": "test",
            "type": "message.received",
            "id": bot,
            "agent": "boss",
            "text": "child hello",
            "bot": bot,
        }
        told = family.post("/api/v1/events", {**event, "actor": {"type": "user", "id": "42"}})
        assert told.status == 202, told.body
        run_id = told.json["run_id"]
        family.ended(run_id)
        (child,) = family.get(f"/api/v1/runs?parent={run_id}").json["items"]
        assert child["bot_id"] == bot
        keys[bot] = family.get(f"/api/v1/runs/{child['run_id']}/grant").json["grant"]["state_keys"]
    assert keys["telegram"]["actor"] != keys["slack"]["actor"]


def test_a_child_may_say_much(shop: Any) -> None:
    """More than an outcome keeps in the log of its caller."""
    shop.save_agent("long", "workshop/bard")
    shop.save_agent("boss", "workshop/caller", access={"resources": {"agents": {"add": ["long"]}}, **CALL["access"]})
    run_id = shop.tell("boss", "long 200000").json["run_id"]
    assert last_words(shop.read(run_id)) == "completed < " + "x" * 200_000


def test_what_is_revoked_from_a_run_is_revoked_from_those_that_it_called(shop: Any) -> None:
    rights = {"permissions": {"storage": ["workspace"], "agents": ["call"]}}
    for name in ("bottom", "middle", "top"):
        below = {"agents": {"add": ["middle", "bottom"]}}
        shop.save_agent(name, "workshop/storer", access={**rights, "resources": below})
    top = shop.tell("top", "middle bottom write").json["run_id"]

    def called_by(run_id: str) -> str:
        found = shop.until(f"/api/v1/runs?parent={run_id}", lambda page: page["items"])["items"]
        return str(found[0]["run_id"])

    bottom = called_by(called_by(top))
    shop.until(
        f"/api/v1/runs/{bottom}/records", lambda page: any(r["type"] == "storage.updated" for r in page["items"])
    )
    assert shop.post(f"/api/v1/runs/{top}/revoke", {"operations": ["storage.workspace"]}).status == 200
    assert last_words(shop.read(top)) == "completed < completed < revoked"
    (why,) = shop.get(f"/api/v1/runs/{bottom}/explain?action=storage.set&thing=workspace").json["items"]
    assert (why["allowed"], why["reasons"][0]["layer"]) == (False, "revocation")


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

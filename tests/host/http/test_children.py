"""Agents that call agents: a separate child run, which ends with its parent, up to four levels deep."""

from itertools import count
from typing import Any

import pytest

_rooms = count()
CALL = {"access": {"permissions": {"agents": ["call"]}}}


@pytest.fixture
def family(shop: Any) -> Any:
    shop.save_agent("child")
    add = {"resources": {"agents": {"add": ["child"]}}, **CALL["access"]}
    shop.save_agent("boss", "workshop/caller", access=add)
    return shop


def save_twofold(shop: Any) -> None:
    """An agent that has itself and the child by two names each: as agents and as tools."""
    names = ["child", "twofold"]
    access = {
        "permissions": {"agents": ["call"], "tools": ["call"]},
        "resources": {"agents": {"add": names}, "tools": {"add": [f"agent:{name}" for name in names]}},
    }
    shop.save_agent("twofold", "workshop/twofold", access=access)


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


def test_an_ungranted_agent_is_not_found(family: Any) -> None:
    run_id = family.tell("boss", "parrot hello").json["run_id"]
    assert last_words(family.read(run_id)) == "refused not_found"
    assert family.get(f"/api/v1/runs?parent={run_id}").json["items"] == []


def test_a_child_knows_actors_by_the_bot_of_its_caller(family: Any) -> None:
    """The same actor id at another bot is another actor, also below (F49)."""
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


def test_a_child_may_return_a_long_answer(shop: Any) -> None:
    """More than an outcome keeps in the log of its caller."""
    shop.save_agent("long", "workshop/bard")
    shop.save_agent("boss", "workshop/caller", access={"resources": {"agents": {"add": ["long"]}}, **CALL["access"]})
    run_id = shop.tell("boss", "long 200000").json["run_id"]
    assert last_words(shop.read(run_id)) == "completed < " + "x" * 200_000


def test_a_revocation_covers_the_called_runs(shop: Any) -> None:
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


@pytest.mark.parametrize(
    ("taken", "came"),
    [
        ({"resources": {"agents": ["child"]}}, "revoked revoked"),
        ({"resources": {"tools": ["agent:child"]}}, "revoked revoked"),
        ({"operations": ["agents.call"]}, "revoked revoked"),
        ({"operations": ["tools.call"]}, "revoked revoked"),
        ({"resources": {"agents": ["twofold"]}}, "called called"),
    ],
)
def test_an_agent_revoked_by_one_name_is_revoked_by_the_other(family: Any, taken: Any, came: str) -> None:
    save_twofold(family)
    room = {"conversation": f"twofold-{next(_rooms)}", "actor": {"id": "ada"}}
    run_id = family.tell("twofold", "wait", **room).json["run_id"]
    stream = family.stream(run_id)
    stream.until("message.delta")
    assert family.post(f"/api/v1/runs/{run_id}/revoke", taken).status == 200
    explained = [
        family.get(f"/api/v1/runs/{run_id}/explain?action={action}&thing={thing}").json["items"][0]["allowed"]
        for action, thing in (("agents.call", "child"), ("tools.call", "agent:child"))
    ]
    assert family.tell("twofold", "child", **room).json["run_id"] == run_id
    assert last_words(list(stream)) == came
    assert explained == [word == "called" for word in came.split()]


def test_an_agent_called_as_a_tool_is_not_found_below_the_fourth_level(family: Any) -> None:
    save_twofold(family)
    run_id = family.tell("twofold", "twofold").json["run_id"]
    assert last_words(family.read(run_id)) == "called < " * 4 + "not_found"
    while children := family.get(f"/api/v1/runs?parent={run_id}").json["items"]:
        ((run_id),) = (child["run_id"] for child in children)
    (why,) = family.get(f"/api/v1/runs/{run_id}/explain?action=tools.call&thing=agent:twofold").json["items"]
    assert (why["allowed"], why["reasons"][0]["layer"]) == (False, "parent")


@pytest.mark.requirement("P06-16")
def test_agents_call_agents_up_to_four_levels_deep(family: Any) -> None:
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

"""The registry of built-in and saved agents."""

import asyncio
from typing import Any

from tests.replacement import replace

from bollard.host.agents.agent import Agent, AgentRegistry


def agent(agent_id: str = "parrot", runner: str = "plugin:acme/parrot/default", **more: Any) -> Agent:
    fields: dict[str, Any] = {
        "runner_name": "default",
        "plugin": runner.removeprefix("plugin:").rpartition("/")[0],
        "label": {"en_US": agent_id},
    }
    return Agent(agent_id=agent_id, runner_id=runner, **{**fields, **more})


def test_a_saved_agent_overrides_the_runners_own_until_it_is_removed() -> None:
    book = AgentRegistry()
    own = agent(permissions=frozenset({"history.page"}))
    book.put(own)
    saved = agent(deadline_s=7, revision=1)
    book.save(saved)
    assert book.get("parrot") == replace(saved, permissions=own.permissions)
    assert book.own("parrot") == own
    assert book.all() == [replace(saved, permissions=own.permissions)]
    assert book.remove("parrot")
    assert book.get("parrot") == own
    assert not book.remove("parrot")
    assert book.get("parrot") == own


def test_a_saved_agent_is_available_once_its_runner_is_connected() -> None:
    book = AgentRegistry()
    saved = agent("polly", revision=1)
    book.save(saved)
    assert book.get("polly") is None
    assert book.all() == []
    assert book.saved() == [saved]
    book.put(agent(permissions=frozenset({"tools.call"}), capabilities=frozenset({"steering"})))
    found = book.get("polly")
    assert found is not None
    assert (found.permissions, found.capabilities, found.revision) == ({"tools.call"}, {"steering"}, 1)


def test_a_saved_agent_has_the_current_permissions_of_its_runner() -> None:
    book = AgentRegistry()
    book.put(agent(permissions=frozenset({"tools.call"})))
    book.save(agent("polly", permissions=frozenset({"tools.call"})))
    book.put(agent(permissions=frozenset({"history.page"})))
    found = book.get("polly")
    assert found is not None
    assert found.permissions == {"history.page"}


def test_no_other_agent_replaces_a_saved_agent_without_a_runner() -> None:
    book = AgentRegistry()
    book.put(agent())
    book.save(agent(runner="plugin:acme/owl/default"))
    assert book.get("parrot") is None
    assert book.own("parrot") == agent()
    book.put(agent("owl", runner="plugin:acme/owl/default"))
    found = book.get("parrot")
    assert found is not None
    assert found.runner_id == "plugin:acme/owl/default"


def test_agents_of_two_workspaces_are_separate() -> None:
    book = AgentRegistry()
    for workspace in ("default", "north", "south"):
        book.put(agent(workspace=workspace))
    book.save(agent("polly", workspace="north", deadline_s=5))
    book.save(agent("polly", workspace="south", deadline_s=6))
    north, south = book.get("polly", "north"), book.get("polly", "south")
    assert north is not None
    assert south is not None
    assert (north.deadline_s, south.deadline_s) == (5, 6)
    assert book.get("polly") is None
    assert [found.workspace for found in book.saved("north")] == ["north"]
    assert book.remove("polly", "north")
    assert book.get("polly", "north") is None
    assert book.get("polly", "south") == south


def test_a_runner_of_one_workspace_runs_no_agent_of_another() -> None:
    book = AgentRegistry()
    book.put(agent())
    book.save(agent("polly", workspace="north"))
    assert book.get("polly", "north") is None
    book.put(agent(workspace="north"))
    assert [found.agent_id for found in book.of("north")] == ["parrot", "polly"]
    assert [found.agent_id for found in book.of("default")] == ["parrot"]


def test_a_withdrawn_runner_removes_its_own_agent_and_saved_agents_wait() -> None:
    book = AgentRegistry()
    book.put(agent())
    book.put(agent(workspace="north"))
    book.save(agent("polly"))
    changes = book.changes
    book.withdraw("plugin:acme/parrot/default")
    assert book.changes == changes + 1
    assert book.of("default") == []
    assert [found.agent_id for found in book.saved()] == ["polly"]
    assert [found.agent_id for found in book.of("north")] == ["parrot"]
    book.withdraw("plugin:acme/parrot/default")
    book.put(agent())
    assert [found.agent_id for found in book.of("default")] == ["parrot", "polly"]


async def test_waiting_for_an_agent_returns_a_saved_agent() -> None:
    book = AgentRegistry()
    book.put(agent())
    waiting = asyncio.create_task(book.wait_for("polly", 5, hopeful=lambda: True))
    await asyncio.sleep(0)
    book.save(agent("polly"))
    assert await waiting == agent("polly")


async def test_waiting_without_hope_returns_none_at_once() -> None:
    assert await AgentRegistry().wait_for("polly", 5, hopeful=lambda: False) is None

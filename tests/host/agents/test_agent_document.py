"""Saved agents: invalid ones are refused, and a response can be saved again."""

from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.agents.agent import Agent, agent_of
from bollard.host.agents.agent_document import agent_from_store, agent_from_wire, agent_to_wire, runner_named
from bollard.host.agents.config_form import KEPT
from bollard.host.agents.policies import AccessPolicy
from bollard.host.errors import Conflict, InvalidRequest
from bollard.protocol import AgentRunnerDiscovery, JsonObject, limits

FORM = [
    {"name": "model", "type": "llm-model-selector", "label": {"en_US": "Model"}, "required": True},
    {"name": "key", "type": "secret", "label": {"en_US": "Key"}},
    {"name": "turns", "type": "integer", "label": {"en_US": "Turns"}, "default": 8},
]


def runner(plugin: str = "parrot", *, steering: bool = False, form: Any = FORM) -> AgentRunnerDiscovery:
    return AgentRunnerDiscovery.from_wire(
        {
            "plugin_author": "acme",
            "plugin_name": plugin,
            "runner_name": "default",
            "manifest": {
                "id": f"plugin:acme/{plugin}/default",
                "name": "default",
                "label": {"en_US": "Parrot", "zh_Hans": "鹦鹉"},
                "capabilities": {"steering": steering, "streaming": True},
                "permissions": {"models": ["invoke", "stream"], "history": ["page"]},
                "config_schema": form,
            },
        }
    )


def body(**more: Any) -> JsonObject:
    fields: JsonObject = {"agent_id": "polly", "runner_id": "plugin:acme/parrot/default", "config": {"model": "m"}}
    return {**fields, **more}


def save(given: JsonObject, of: AgentRunnerDiscovery | None = None, revision: int = 1, **more: Any) -> Agent:
    return agent_from_wire(given, of or runner(), "default", revision, **more)


def test_the_agent_a_runner_gets_by_itself_spells_out_its_manifest() -> None:
    own = agent_of(runner(steering=True))
    assert own.agent_id == "parrot"
    assert own.permissions == {"models.invoke", "models.stream", "history.page"}
    assert own.policy.access == AccessPolicy(
        permissions={"models": ("invoke", "stream"), "history": ("page",)}, resources={}, conversations=()
    )
    assert own.policy.concurrency.mode == "steer"
    assert agent_of(runner()).policy.concurrency.mode == "queue"
    assert own.capabilities == {"steering", "streaming"}
    assert own.config == {"turns": 8}
    assert [item.name for item in own.form] == ["model", "key", "turns"]
    assert own.revision == 0


def test_a_saved_agent_has_what_its_body_and_its_runner_say() -> None:
    agent = save(
        body(
            label={"zh_Hans": "波莉"},
            policy={"budget": {"runs_at_once": 2}},
            deadline_s=60,
            idle_s=1.5,
            repeatable=True,
        ),
        revision=4,
    )
    assert (agent.agent_id, agent.workspace, agent.revision) == ("polly", "default", 4)
    assert (agent.runner_id, agent.runner_name, agent.plugin) == (
        "plugin:acme/parrot/default",
        "default",
        "acme/parrot",
    )
    assert agent.label == {"zh_Hans": "波莉"}
    assert agent.config == {"model": "m", "turns": 8}
    assert agent.policy.budget.runs_at_once == 2
    assert (agent.deadline_s, agent.idle_s, agent.repeatable) == (60, 1.5, True)
    assert agent.permissions == agent_of(runner()).permissions


def test_a_saved_agent_without_a_policy_is_granted_nothing() -> None:
    agent = save(body())
    assert agent.policy.access.permissions == {}
    assert agent.label == {"en_US": "Parrot", "zh_Hans": "鹦鹉"}
    assert (agent.deadline_s, agent.idle_s) == (limits.RUN_DEADLINE_S, limits.RUN_IDLE_S)


def test_the_mode_of_who_names_none_is_the_runners() -> None:
    assert save(body()).policy.concurrency.mode == "queue"
    assert save(body(), runner(steering=True)).policy.concurrency.mode == "steer"


@for_each(
    ("more", "field"),
    [
        ({"agent_id": "Polly"}, "agent.agent_id"),
        ({"agent_id": ""}, "agent.agent_id"),
        ({"agent_id": "a" * 65}, "agent.agent_id"),
        ({"agent_id": "-polly"}, "agent.agent_id"),
        ({"agent_id": "direct:polly"}, "agent.agent_id"),
        ({"agent_id": "pоlly"}, "agent.agent_id"),  # a Cyrillic letter that looks like an o
        ({"agent_id": "polly\n"}, "agent.agent_id"),
        ({"agent_id": "pol\u200bly"}, "agent.agent_id"),
        ({"runner_id": 7}, "agent.runner_id"),
        ({"nick": "x"}, "agent.nick"),
        ({"label": {}}, "agent.label"),
        ({"label": {"en_US": "  "}}, "agent.label"),
        ({"label": "Polly"}, "agent.label"),
        ({"deadline_s": 0}, "agent.deadline_s"),
        ({"deadline_s": 24 * 3600 + 1}, "agent.deadline_s"),
        ({"idle_s": "fast"}, "agent.idle_s"),
        ({"idle_s": float("nan")}, "agent.idle_s"),
        ({"repeatable": "yes"}, "agent.repeatable"),
        ({"config": []}, "agent.config"),
        ({"config": {"model": "m", "colour": "red"}}, "config.colour"),
        ({"config": {}}, "config.model"),
        ({"policy": {"gates": {}}}, "policy.gates"),
        ({"policy": {"access": {"resources": {"moons": {"add": ["io"]}}}}}, "policy.access.resources.moons"),
    ],
)
def test_what_cannot_work_is_refused_by_its_field(more: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        save(body(**more))
    assert caught.value.details["field"] == field
    assert field in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("missing", ["agent_id", "runner_id"])
def test_an_agent_needs_an_id_and_a_runner(missing: str) -> None:
    given = body()
    del given[missing]
    with pytest.raises(InvalidRequest, match=f"agent.{missing}: this field is needed"):
        save(given)


def test_an_unknown_runner_is_refused_and_the_known_ones_are_named() -> None:
    given = body(runner_id="plugin:acme/owl/default")
    assert runner_named(given) == "plugin:acme/owl/default"
    with pytest.raises(InvalidRequest, match="there is no runner plugin:acme/owl/default") as caught:
        agent_from_wire(given, None, "default", 1, known=["plugin:b/b/default", "plugin:a/a/default"])
    assert caught.value.hint == "use one of plugin:a/a/default, plugin:b/b/default"
    with pytest.raises(InvalidRequest) as caught:
        agent_from_wire(given, None, "default", 1)
    assert "no plugin offers a runner" in caught.value.hint
    with pytest.raises(InvalidRequest, match="there is no runner"):
        agent_from_wire(given, runner(), "default", 1)


def test_a_change_of_an_older_revision_is_refused() -> None:
    assert save(body(revision=3), revision=4).revision == 4
    with pytest.raises(Conflict, match="is at revision 3, but revision 2 was edited") as caught:
        save(body(revision=2), revision=4)
    assert caught.value.details["revision"] == 3


def test_what_is_shown_can_be_saved_again_and_shows_no_secret() -> None:
    agent = save(body(config={"model": "m", "key": "hunter2"}, description={"en_US": "Talks."}))
    shown = agent_to_wire(agent)
    assert "hunter2" not in str(shown)
    again = save(shown, revision=2, before=agent)
    assert agent_to_wire(again, masked=False) == {**agent_to_wire(agent, masked=False), "revision": 2}
    assert again.config["key"] == "hunter2"


@pytest.mark.parametrize("change", [{"workspace": "other"}, {"agent_id": "molly"}])
def test_a_secret_is_kept_for_the_same_agent_only(change: dict[str, str]) -> None:
    agent = save(body(config={"model": "m", "key": "hunter2"}))
    given = body(config={"model": "m", "key": KEPT}, agent_id=change.get("agent_id", "polly"))
    with pytest.raises(InvalidRequest, match="has no secret to keep"):
        agent_from_wire(given, runner(), change.get("workspace", "default"), 2, before=agent)


def test_a_secret_does_not_go_to_another_plugin() -> None:
    agent = save(body(config={"model": "m", "key": "hunter2"}))
    moved = body(runner_id="plugin:acme/thief/default", config={"model": "m", "key": KEPT})
    with pytest.raises(InvalidRequest, match="has no secret to keep"):
        save(moved, runner("thief"), revision=2, before=agent)


def test_a_stored_agent_comes_back_without_its_runner_and_may_be_granted_nothing_yet() -> None:
    agent = save(
        body(config={"model": "m", "key": "hunter2"}, policy={"access": {"permissions": {"history": ["page"]}}})
    )
    stored = agent_from_store(agent_to_wire(agent, masked=False), "default", 1)
    assert (stored.runner_id, stored.runner_name, stored.plugin) == (agent.runner_id, "default", "acme/parrot")
    assert (stored.config, stored.policy, stored.label) == (agent.config, agent.policy, agent.label)
    assert stored.permissions == frozenset()
    assert stored.form == ()
    assert "hunter2" not in str(agent_to_wire(stored))


@pytest.mark.parametrize("runner_id", ["parrot", "plugin:acme/parrot", "plugin:acme//default", "x:acme/parrot/default"])
def test_a_stored_agent_with_a_broken_runner_id_is_refused(runner_id: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a runner id"):
        agent_from_store(body(runner_id=runner_id), "default", 1)

"""Saved agents: invalid ones are refused, and a response can be saved again."""

from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.agents.agent import Agent, agent_of, agent_on
from bollard.host.agents.config_form import KEPT
from bollard.host.agents.policies import AccessPolicy, ConcurrencyPolicy
from bollard.host.agents.saved_agent import SavedAgent, agent_to_wire, agent_without_runner, read_request, read_stored
from bollard.host.errors import InvalidRequest
from bollard.host.log.saved_resources import Saved
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


def save(given: JsonObject, of: AgentRunnerDiscovery | None = None, *, before: SavedAgent | None = None) -> SavedAgent:
    return read_request(given, agent_of(of or runner()), (), before)


def joined(agent: SavedAgent, revision: int = 1) -> Agent:
    """The agent with its runner, as the registry has it."""
    saved = Saved(workspace="default", id=agent.agent_id, revision=revision, value=agent)
    return agent_on(agent_without_runner(saved), agent_of(runner()))


def test_the_own_agent_of_a_runner_has_the_values_of_its_manifest() -> None:
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


def test_a_saved_agent_has_the_values_of_its_body_and_its_runner() -> None:
    given = body(
        label={"zh_Hans": "波莉"}, policy={"budget": {"runs_at_once": 2}}, deadline_s=60, idle_s=1.5, repeatable=True
    )
    agent = joined(save(given), revision=4)
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


def test_a_saved_agent_without_a_policy_has_no_permissions() -> None:
    agent = save(body())
    assert agent.policy.access.permissions == {}
    assert agent.label == {"en_US": "Parrot", "zh_Hans": "鹦鹉"}
    assert (agent.deadline_s, agent.idle_s) == (limits.RUN_DEADLINE_S, limits.RUN_IDLE_S)


def test_an_agent_without_a_concurrency_mode_gets_the_mode_of_its_runner() -> None:
    steering = runner(steering=True)
    assert save(body()).policy.concurrency.mode == "queue"
    assert save(body(), steering).policy.concurrency == ConcurrencyPolicy(mode="steer")
    given = body(policy={"concurrency": {"steer_from": "conversation"}})
    assert save(given, steering).policy.concurrency == ConcurrencyPolicy(mode="steer", steer_from="conversation")
    given = body(policy={"concurrency": {"mode": "reject"}})
    assert save(given, steering).policy.concurrency.mode == "reject"


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
        ({"policy": []}, "policy"),
        ({"policy": {"concurrency": []}}, "policy.concurrency"),
        ({"policy": {"gates": {}}}, "policy.gates"),
        ({"policy": {"access": {"resources": {"moons": {"add": ["io"]}}}}}, "policy.access.resources.moons"),
    ],
)
def test_an_invalid_agent_field_is_refused_by_name(more: Any, field: str) -> None:
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
    with pytest.raises(InvalidRequest, match="there is no runner plugin:acme/owl/default") as caught:
        read_request(given, None, ["plugin:b/b/default", "plugin:a/a/default"], None)
    assert caught.value.hint == "use one of plugin:a/a/default, plugin:b/b/default"
    with pytest.raises(InvalidRequest) as caught:
        read_request(given, None, (), None)
    assert "no plugin offers a runner" in caught.value.hint


def test_a_shown_agent_can_be_saved_again_and_shows_no_secret() -> None:
    agent = save(body(config={"model": "m", "key": "hunter2"}, description={"en_US": "Talks."}))
    shown = agent_to_wire(joined(agent))
    assert (shown["config"], shown["revision"]) == ({"model": "m", "key": KEPT, "turns": 8}, 1)
    again = save(shown, before=agent)
    assert again == agent
    assert again.config["key"] == "hunter2"


def test_a_new_agent_has_no_secret_to_keep() -> None:
    with pytest.raises(InvalidRequest, match="has no secret to keep"):
        save(body(config={"model": "m", "key": KEPT}))


def test_a_secret_does_not_move_to_another_plugin() -> None:
    agent = save(body(config={"model": "m", "key": "hunter2"}))
    moved = body(runner_id="plugin:acme/thief/default", config={"model": "m", "key": KEPT})
    with pytest.raises(InvalidRequest, match="has no secret to keep"):
        save(moved, runner("thief"), before=agent)


def test_a_stored_agent_reads_back_without_its_runner_and_without_permissions() -> None:
    agent = save(
        body(config={"model": "m", "key": "hunter2"}, policy={"access": {"permissions": {"history": ["page"]}}})
    )
    assert read_stored(agent.to_wire()) == agent
    assert read_stored({**agent.to_wire(), "revision": 1}) == agent  # as earlier versions stored it
    stored = agent_without_runner(Saved(workspace="default", id="polly", revision=1, value=agent))
    assert (stored.runner_id, stored.runner_name, stored.plugin) == (agent.runner_id, "default", "acme/parrot")
    assert (stored.config, stored.policy, stored.label) == (agent.config, agent.policy, agent.label)
    assert stored.permissions == frozenset()
    assert stored.form == ()
    assert "hunter2" not in str(agent_to_wire(stored))


def test_a_saved_agent_with_everyone_keeps_everyone() -> None:
    stored = save(body(policy={"audience": {"see": {"who": "everyone"}}})).to_wire()
    assert read_stored(stored).policy.audience.see.who == "everyone"
    assert save(body()).policy.audience.see.who == "participants"


@pytest.mark.parametrize("runner_id", ["parrot", "plugin:acme/parrot", "plugin:acme//default", "x:acme/parrot/default"])
def test_a_stored_agent_with_a_broken_runner_id_is_refused(runner_id: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a runner id"):
        read_stored(body(runner_id=runner_id))


def test_an_agent_that_was_saved_before_a_field_was_locked_runs_with_the_locked_value() -> None:
    before = [{"name": "turns", "type": "integer", "label": {"en_US": "Turns"}, "default": 8}]
    saved = save(body(config={"turns": 40}), runner(form=before))
    now = runner(form=[{**before[0], "locked": {"en_US": "The service allows no more."}}])
    stored = Saved(workspace="default", id="polly", revision=1, value=saved)
    agent = agent_on(agent_without_runner(stored), agent_of(now))
    assert agent.config == {"turns": 8}
    assert agent_to_wire(agent)["config"] == {"turns": 8}
    assert save(body(config=agent.config), now).config == {"turns": 8}

"""Why: every yes and every no names who decided, in both languages."""

import string
from typing import Any

import msgspec
import pytest
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.agents.policies import OPERATIONS, ConcurrencyPolicy, ResourceRule, StatePolicy
from bollard.host.grants.access import compile_access
from bollard.host.grants.child import issue_child_grant
from bollard.host.grants.explanation import WORDS, explain, explain_all
from bollard.host.grants.grant import Grant, GrantLimits
from bollard.host.grants.offer import Offer, OfferedFile, OfferedTool
from bollard.host.grants.revocation import NOTHING_REVOKED, Revocation
from bollard.host.texts import LOCALES
from bollard.protocol import ACTIONS, FormItem


def keys(grant: Grant, action: str, thing: str | None = None, revoked: Revocation = NOTHING_REVOKED) -> list[str]:
    return [reason.key for reason in explain(grant, revoked, action, thing).reasons]


def test_an_allowed_action_names_every_layer(granting: Any) -> None:
    item = FormItem.from_wire({"name": "model", "type": "llm-model-selector", "label": {"en_US": "Model"}})
    agent = granting.agent(form=(item,), config={"model": "chat"})
    found = explain(granting.grant(agent), NOTHING_REVOKED, "models.invoke", "chat")
    assert (found.allowed, found.code) == (True, None)
    assert [(reason.layer, reason.words()) for reason in found.reasons] == [
        ("manifest", "The runner's manifest asks for models.invoke."),
        ("policy", "The agent's policy allows models.invoke."),
        ("configuration", "The field model of the configuration selects chat."),
        ("policy", "The agent's policy adds chat."),
        ("workspace", "The workspace offers chat."),
        ("revocation", "It has not been revoked."),
    ]


@for_each(
    ("action", "thing", "expected"),
    [
        ("host.info", None, ["always"]),
        ("files.get", "logo", ["manifest.names", "policy.names", "policy.adds", "workspace.offers", "revocation.none"]),
        ("platform.request", "message.edit", ["manifest.names", "policy.names", "workspace.offers", "revocation.none"]),
        ("state.get", "actor", ["policy.state", "scope.has", "revocation.none"]),
        ("state.get", "runner", ["policy.state", "revocation.none"]),
        ("steering.pull", None, ["manifest.steers", "policy.steers", "scope.has", "revocation.none"]),
        ("history.page", None, ["manifest.names", "policy.names", "scope.has", "revocation.none"]),
        ("history.page", "elsewhere", ["manifest.names", "policy.names", "policy.conversation", "revocation.none"]),
        ("storage.get", "plugin", ["manifest.names", "policy.names", "revocation.none"]),
    ],
)
def test_an_allowed_action_of_each_family_has_its_reasons(
    granting: Any, action: str, thing: str | None, expected: list[str]
) -> None:
    assert keys(granting.grant(), action, thing) == expected


@for_each(
    ("action", "thing", "expected"),
    [
        ("models.delete", "chat", "unknown_action"),
        ("models.invoke", "ghost", "configuration.lacks"),
        ("models.invoke", None, "names_nothing"),
        ("storage.get", None, "names_nothing"),
        ("models.rerank", "chat", "workspace.unfit"),
        ("platform.request", "ghost", "workspace.lacks"),
        ("history.page", "nowhere", "policy.no_conversation"),
        ("state.get", "everything", "policy.no_state"),
    ],
)
def test_a_denied_action_names_the_denying_layer(granting: Any, action: str, thing: str | None, expected: str) -> None:
    assert keys(granting.grant(), action, thing) == [expected]


def test_a_missing_operation_is_missing_from_the_manifest_or_the_policy(granting: Any) -> None:
    full = granting.agent()
    less = {**OPERATIONS, "models": ("invoke",), "history": (), "files": ()}
    by_policy = granting.grant(replace(full, policy=granting.policy(permissions=less)))
    by_manifest = granting.grant(
        replace(full, permissions=full.permissions - {"models.stream", "history.page", "history.search"})
    )
    neither = granting.grant(replace(full, permissions=frozenset(), policy=granting.policy(permissions={})))
    assert keys(by_policy, "models.stream", "chat") == ["policy.lacks"]
    assert keys(by_policy, "history.page") == ["policy.lacks"]
    assert keys(by_policy, "files.get", "logo") == ["policy.lacks"]
    assert keys(by_manifest, "models.stream", "chat") == ["manifest.lacks"]
    assert keys(by_manifest, "history.page") == ["manifest.lacks"]
    assert keys(neither, "models.stream", "chat") == ["manifest.lacks"]
    assert keys(neither, "storage.get", "plugin") == ["manifest.lacks"]


@pytest.mark.parametrize(
    ("rule", "thing", "expected"),
    [
        (ResourceRule(add=("ghost",)), "ghost", "workspace.lacks"),
        (ResourceRule(add=("chat",), only=()), "chat", "policy.cuts"),
        (ResourceRule(add=("painter",)), "painter", "workspace.unfit"),
        (ResourceRule(), "chat", "configuration.lacks"),
    ],
)
def test_a_requested_but_ungranted_resource_has_a_reason(
    granting: Any, rule: ResourceRule, thing: str, expected: str
) -> None:
    grant = granting.grant(granting.agent(policy=granting.policy(resources={"models": rule})))
    assert keys(grant, "models.invoke", thing) == [expected]


def test_a_tool_that_needs_a_missing_runner_capability_names_the_manifest(granting: Any) -> None:
    name = "tool:builtin/register_skill"
    tool = OfferedTool(tool_name=name, tool_type="builtin", risk="high", definition_sha256="b" * 64)
    policy = granting.policy(resources={"tools": ResourceRule(add=(name,))})
    unable = granting.grant(granting.agent(policy=policy), offer=Offer.of(tool))
    able = granting.agent(policy=policy, capabilities=frozenset({"skill_authoring"}))
    (reason,) = explain(unable, NOTHING_REVOKED, "tools.call", name).reasons
    assert (reason.layer, reason.key) == ("manifest", "manifest.unable")
    assert "skill_authoring" in reason.words()
    assert "policy.adds" in keys(granting.grant(able, offer=Offer.of(tool)), "tools.call", name)
    asked_by_nobody = granting.grant(granting.agent(policy=granting.policy(resources={})), offer=Offer.of(tool))
    assert keys(asked_by_nobody, "tools.call", name) == ["configuration.lacks"]


def test_a_model_without_a_granted_operation_names_the_denying_layer(granting: Any) -> None:
    grant = granting.grant(granting.agent(policy=granting.policy(permissions={"models": ("invoke",)})))
    assert keys(grant, "models.rerank", "sorter") == ["policy.lacks"]
    assert keys(grant, "models.invoke", "sorter") == ["workspace.unfit"]


def test_a_file_of_a_source_that_is_not_granted_names_the_denying_layer(granting: Any) -> None:
    grant = granting.grant(granting.agent(policy=granting.policy(permissions={"files": ("config",)})))
    found = explain(grant, NOTHING_REVOKED, "files.get", "book")
    assert [reason.words() for reason in found.reasons] == ["The agent's policy does not allow files.knowledge."]
    odd = Offer.of(OfferedFile(file_id="logo", source="elsewhere"))
    assert keys(granting.grant(offer=odd), "files.get", "logo") == ["workspace.unfit"]


def test_an_event_without_a_conversation_is_named_as_the_reason(granting: Any) -> None:
    grant = granting.grant(scope=msgspec.structs.replace(granting.scope, conversation=None))
    assert [keys(grant, action) for action in ("history.page", "history.search", "steering.pull")] == [
        ["scope.lacks"]
    ] * 3
    assert keys(grant, "state.get", "conversation") == ["scope.lacks"]


def test_withheld_steering_and_state_name_the_manifest_or_the_policy(granting: Any) -> None:
    agent = granting.agent()
    assert keys(granting.grant(replace(agent, capabilities=frozenset())), "steering.pull") == [
        "manifest.does_not_steer"
    ]
    queues = replace(agent.policy, concurrency=ConcurrencyPolicy(mode="queue"))
    assert keys(granting.grant(replace(agent, policy=queues)), "steering.pull") == ["policy.does_not_steer"]
    off = granting.with_state(agent, StatePolicy(enabled=False))
    assert keys(granting.grant(off), "state.get", "actor") == ["policy.no_state"]


def test_a_revocation_is_explained_only_for_granted_permissions(granting: Any) -> None:
    revoked = Revocation(all=True)
    assert keys(granting.grant(), "models.invoke", "chat", revoked) == ["revocation.took"]
    assert keys(granting.grant(), "models.invoke", "ghost", revoked) == ["configuration.lacks"]
    assert keys(granting.grant(), "host.info", None, revoked) == ["always"]


def child(granting: Any, parent: Grant) -> Grant:
    return issue_child_grant(
        run_id="run-2",
        access=compile_access(granting.agent(), granting.offer),
        scope=parent.scope,
        limits=GrantLimits(),
        parent=parent,
        revoked=NOTHING_REVOKED,
    )


def test_a_right_that_the_parent_lacks_names_the_parent(granting: Any) -> None:
    policy = granting.policy(permissions={**OPERATIONS, "events": ()}, resources={})
    agent = granting.with_state(granting.agent(policy=policy), StatePolicy(scopes=("runner",)))
    found = child(granting, granting.grant(agent))
    assert keys(found, "events.get", "event-1") == ["parent.lacks"]
    assert keys(found, "models.invoke", "chat") == ["parent.lacks_thing"]
    assert keys(found, "state.get", "actor") == ["parent.lacks"]
    secluded = child(granting, granting.grant(granting.agent(policy=granting.policy(conversations=()))))
    assert keys(secluded, "history.page", "elsewhere") == ["parent.no_conversation"]
    assert keys(secluded, "history.page", "nowhere") == ["policy.no_conversation"]
    assert [each.thing for each in explain_all(secluded) if each.action == "history.page"] == [None, "elsewhere"]
    mute = granting.grant(granting.agent(capabilities=frozenset()))
    assert keys(child(granting, mute), "steering.pull") == ["parent.lacks"]


def test_the_deepest_child_names_the_depth_as_the_reason(granting: Any) -> None:
    grant = granting.grant()
    for _ in range(4):
        grant = child(granting, grant)
    assert keys(grant, "agents.call", "researcher") == ["parent.depth"]


def test_every_explanation_exists_in_every_language_and_survives_a_round_trip(granting: Any) -> None:
    grant = granting.grant()
    found = explain_all(grant)
    assert {each.action for each in found} == {*ACTIONS}
    assert {each.thing for each in found if each.action == "models.invoke"} == {"chat", "sorter", "vectors"}
    assert [each.thing for each in found if each.action == "history.page"] == [None, "elsewhere"]
    assert explain_all(Grant.from_json(grant.json)) == found
    for each in found:
        assert each.reasons
        for language in LOCALES:
            assert all(reason.words(language) for reason in each.reasons)


def test_both_languages_have_the_same_sentences_with_the_same_fields() -> None:
    def fields(template: str) -> set[str | None]:
        return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}

    english, chinese = WORDS["en_US"], WORDS["zh_Hans"]
    assert {*english} == {*chinese}
    assert all(fields(english[key]) == fields(chinese[key]) for key in english)

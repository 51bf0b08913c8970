"""Compiling an access: the intersection of manifest, policy, configuration and offer, and why the rest is missing."""

from typing import Any

import msgspec
import pytest
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.agents.policies import OPERATIONS, AccessPolicy, AgentPolicy, ConcurrencyPolicy, ResourceRule
from bollard.host.grants.access import AccessCache, compile_access
from bollard.host.grants.offer import KINDS, Offer, OfferedFile, OfferedModel, operations_that_fit
from bollard.protocol import FormItem
from bollard.trust import canonical_json, sha256_of

ALL = [f"{family}.{name}" for family, names in OPERATIONS.items() for name in names]


def field(name: str, kind: str) -> FormItem:
    return FormItem.from_wire({"name": name, "type": kind, "label": {"en_US": name}})


@pytest.mark.requirement("P03-01")
@for_each("full_name", ALL)
@for_each("in_manifest", [True, False])
@for_each("in_policy", [True, False])
def test_an_operation_is_granted_when_manifest_and_policy_both_name_it(
    granting: Any, full_name: str, in_manifest: bool, in_policy: bool
) -> None:
    family, name = full_name.split(".")
    agent = granting.agent(
        permissions=frozenset({full_name} if in_manifest else ()),
        policy=granting.policy(permissions={family: (name,)} if in_policy else {}),
    )
    rights = compile_access(agent, granting.offer).rights
    expected = {family: frozenset({name})} if in_manifest and in_policy else {}
    assert rights.operations == expected
    why = rights.withheld_operations.get(full_name)
    assert why == {(True, False): "policy", (False, True): "manifest"}.get((in_manifest, in_policy))


@pytest.mark.requirement("P03-06")
def test_an_empty_policy_grants_nothing(granting: Any) -> None:
    agent = granting.agent(policy=AgentPolicy())
    rights = compile_access(agent, granting.offer).rights
    assert (rights.operations, rights.resources, rights.conversations, rights.steering) == ({}, {}, frozenset(), False)


@pytest.mark.requirement("P03-06")
def test_an_empty_manifest_leaves_only_resources_without_permissions(granting: Any) -> None:
    rights = compile_access(granting.agent(permissions=frozenset(), capabilities=frozenset()), granting.offer).rights
    assert rights.operations == {}
    assert set(rights.resources) == {"skills"}
    assert rights.steering is False


@pytest.mark.requirement("P02-16")
@for_each(
    ("form_type", "value", "kind", "ids"),
    [
        ("llm-model-selector", "chat", "models", {"chat"}),
        ("llm-model-selector", "", "models", set()),
        ("llm-model-selector", "__none__", "models", set()),
        ("llm-model-selector", None, "models", set()),
        ("select-llm-model", "chat", "models", {"chat"}),
        ("rerank-model-selector", "sorter", "models", {"sorter"}),
        ("embedding-model-selector", "vectors", "models", {"vectors"}),
        ("model-fallback-selector", {"primary": "chat", "fallbacks": ["sorter"]}, "models", {"chat", "sorter"}),
        ("model-fallback-selector", {"primary": "", "fallbacks": ["__none__", "chat"]}, "models", {"chat"}),
        ("model-fallback-selector", {"primary": "chat"}, "models", {"chat"}),
        ("model-fallback-selector", "__none__", "models", set()),
        ("knowledge-base-multi-selector", ["manual"], "knowledge_bases", {"manual"}),
        ("select-knowledge-bases", ["manual", ""], "knowledge_bases", {"manual"}),
        ("tool-multi-selector", ["clock", "__none__"], "tools", {"clock"}),
        ("tool-multi-selector", [], "tools", set()),
        ("file", "logo", "files", {"logo"}),
        ("array[file]", ["logo", "book"], "files", {"logo", "book"}),
        ("string", "chat", "models", set()),
        ("outpost-selector", "chat", "models", set()),
        ("tool-multi-selector", [7, ["clock"]], "tools", set()),
    ],
)
def test_a_selector_requests_its_selected_resources(
    granting: Any, form_type: str, value: Any, kind: str, ids: set[str]
) -> None:
    agent = granting.agent(
        form=(field("choice", form_type),), config={"choice": value}, policy=granting.policy(resources={})
    )
    rights = compile_access(agent, granting.offer).rights
    held = rights.resources
    assert set(held.get(kind, {})) == ids
    assert rights.withheld_resources == {}
    assert all(held[kind][name].fields == ("choice",) for name in ids)
    documents = {"files"} if kind == "knowledge_bases" else set()  # they come with their base
    assert {each for each in held if each != "platform"} <= {kind} | documents


def test_all_sources_of_a_request_are_remembered(granting: Any) -> None:
    agent = granting.agent(
        form=(field("model", "llm-model-selector"), field("spare", "model-fallback-selector")),
        config={"model": "chat", "spare": {"primary": "chat", "fallbacks": ["chat"]}},
    )
    held = compile_access(agent, granting.offer).rights.resources["models"]["chat"]
    assert (held.fields, held.added) == (("model", "spare"), True)


@pytest.mark.requirement("P03-08", "P03-01")
@for_each(
    ("rule", "held", "withheld"),
    [
        (ResourceRule(), {"chat"}, {}),
        (ResourceRule(add=("sorter",)), {"chat", "sorter"}, {}),
        (ResourceRule(only=("chat", "vectors")), {"chat"}, {}),
        (ResourceRule(add=("sorter",), only=("sorter",)), {"sorter"}, {"chat": "policy"}),
        (ResourceRule(only=()), set(), {"chat": "policy"}),
        (ResourceRule(add=("ghost",)), {"chat"}, {"ghost": "workspace"}),
        (ResourceRule(add=("painter",)), {"chat"}, {"painter": "unfit"}),
    ],
)
def test_a_rule_adds_and_excludes_and_names_missing_resources(
    granting: Any, rule: ResourceRule, held: set[str], withheld: dict[str, str]
) -> None:
    agent = granting.agent(
        form=(field("model", "llm-model-selector"),),
        config={"model": "chat"},
        policy=granting.policy(resources={"models": rule}),
    )
    rights = compile_access(agent, granting.offer).rights
    assert set(rights.resources.get("models", {})) == held
    assert rights.withheld_resources.get("models", {}) == withheld


@for_each(
    ("model_type", "operations"),
    [("llm", {"invoke", "stream"}), ("rerank", {"rerank"}), ("embedding", {"embed"}), ("image", set()), ("", set())],
)
def test_a_model_gets_only_the_operations_that_fit_its_type(
    granting: Any, model_type: str, operations: set[str]
) -> None:
    model = OfferedModel(model_id="m", model_type=model_type)
    assert set(operations_that_fit(model)) == operations
    agent = granting.agent(policy=granting.policy(resources={"models": ResourceRule(add=("m",))}))
    held = compile_access(agent, Offer.of(model)).rights.resources.get("models", {})
    assert {name: set(each.operations) for name, each in held.items()} == ({"m": operations} if operations else {})


@for_each("source", ["config", "knowledge", "elsewhere"])
@for_each("granted", ["config", "knowledge"])
def test_a_file_needs_the_operation_of_its_source(granting: Any, source: str, granted: str) -> None:
    agent = granting.agent(
        policy=granting.policy(permissions={"files": (granted,)}, resources={"files": ResourceRule(add=("f",))})
    )
    rights = compile_access(agent, Offer.of(OfferedFile(file_id="f", source=source))).rights
    assert ("files" in rights.resources) == (source == granted)


@for_each("kind", [kind for kind in KINDS if kind not in ("skills", "platform")])
def test_a_resource_whose_family_is_not_granted_is_not_granted(granting: Any, kind: str) -> None:
    without = {family: names for family, names in OPERATIONS.items() if family != kind}
    rights = compile_access(granting.agent(policy=granting.policy(permissions=without)), granting.offer).rights
    assert kind not in rights.resources
    assert set(rights.withheld_resources[kind].values()) == {"unfit"}


@pytest.mark.requirement("P02-19")
@for_each("capable", [True, False])
@for_each("mode", ["steer", "queue", "interrupt", "reject", "parallel"])
def test_steering_needs_the_capability_and_a_policy_that_steers(granting: Any, capable: bool, mode: Any) -> None:
    agent = granting.agent(
        capabilities=frozenset({"steering"} if capable else ()),
        policy=replace(granting.policy(), concurrency=ConcurrencyPolicy(mode=mode)),
    )
    assert compile_access(agent, granting.offer).rights.steering is (capable and mode == "steer")


def test_the_digest_covers_the_canonical_bytes_in_any_order_of_the_inputs(granting: Any) -> None:
    agent = granting.agent()
    access = compile_access(agent, granting.offer)
    backwards = [thing for things in granting.offer.things.values() for thing in things.values()][::-1]
    rules = {
        kind: replace(rule, add=rule.add[::-1]) for kind, rule in reversed([*agent.policy.access.resources.items()])
    }
    permissions = {family: names[::-1] for family, names in reversed([*OPERATIONS.items()])}
    policy = granting.policy(resources=rules, permissions=permissions)
    other = compile_access(granting.agent(policy=policy), Offer.of(*backwards))
    assert access == other
    assert access.json == canonical_json(msgspec.to_builtins(access.rights, order="deterministic"))
    assert access.sha256 == sha256_of(access.json)


def test_a_cached_access_is_the_same_object_and_serves_an_equal_agent(granting: Any) -> None:
    cache = AccessCache()
    first = cache.get(granting.agent(), granting.offer)
    assert cache.get(granting.agent(), granting.offer) is first
    assert len(cache) == 1


def test_a_changed_agent_or_offer_never_gets_the_old_access(granting: Any) -> None:
    cache = AccessCache()
    agent = granting.agent()
    assert "models" in cache.get(agent, granting.offer).rights.operations
    narrowed = replace(agent, policy=replace(agent.policy, access=AccessPolicy()))
    assert cache.get(narrowed, granting.offer).rights.operations == {}
    assert cache.get(replace(agent, permissions=frozenset()), granting.offer).rights.operations == {}
    assert cache.get(agent, Offer.of()).rights.resources == {}


def test_the_cache_drops_the_least_recently_used_entry(granting: Any) -> None:
    cache = AccessCache(entries=2)
    one, two, three = (granting.agent(agent_id=name) for name in ("one", "two", "three"))
    kept, dropped = cache.get(one, granting.offer), cache.get(two, granting.offer)
    cache.get(one, granting.offer)
    cache.get(three, granting.offer)
    assert len(cache) == 2
    assert cache.get(one, granting.offer) is kept
    assert cache.get(two, granting.offer) is not dropped


def test_two_workspaces_do_not_share_a_cached_access(granting: Any) -> None:
    cache = AccessCache()
    here, there = granting.agent(workspace="here"), granting.agent(workspace="there", plugin="other/plugin")
    assert cache.get(here, granting.offer).rights.plugin == "acme/helper"
    assert cache.get(there, granting.offer).rights.plugin == "other/plugin"


def test_a_changed_offer_has_another_digest(granting: Any) -> None:
    assert Offer.of().sha256 != granting.offer.sha256
    small = OfferedModel(model_id="m", model_type="llm", context_window=1)
    assert Offer.of(small).sha256 != Offer.of(replace(small, context_window=2)).sha256

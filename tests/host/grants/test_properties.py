"""Properties of every policy, every offer and every event: no result is wider than its inputs."""

from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bollard.host.agents.agent import Agent
from bollard.host.agents.policies import (
    OPERATIONS,
    AccessPolicy,
    AgentPolicy,
    ConcurrencyPolicy,
    ResourceRule,
    StatePolicy,
)
from bollard.host.grants.access import AccessCache, compile_access
from bollard.host.grants.check import RULES, Allowed, Denied, check
from bollard.host.grants.child import issue_child_grant
from bollard.host.grants.explanation import explain, explain_all
from bollard.host.grants.grant import Grant, GrantLimits, GrantParent, available_apis_of, issue_grant, resources_of
from bollard.host.grants.offer import (
    Offer,
    OfferedAction,
    OfferedAgent,
    OfferedFile,
    OfferedKnowledgeBase,
    OfferedModel,
    OfferedSkill,
    OfferedThing,
    OfferedTool,
    base_of,
    documents_of,
    file_as_listed,
)
from bollard.host.grants.revocation import NOTHING_REVOKED, Revocation, granted_operations, granted_things, revoke
from bollard.host.scope import Scope
from bollard.host.texts import LOCALES
from bollard.protocol import ACTIONS, AgentResources, FormItem, StateScope
from bollard.trust import canonical_json, sha256_of

# Few ids, so that selected, added, cut, offered and called ids often coincide.
IDS = ("a", "b", "é𝄞", "ghost")
KINDS = ("models", "tools", "knowledge_bases", "files", "agents", "skills")
FORM = tuple(
    FormItem.from_wire({"name": name, "type": kind, "label": {"en_US": name}})
    for name, kind in {
        "model": "llm-model-selector",
        "spare": "model-fallback-selector",
        "tools": "tool-multi-selector",
        "bases": "knowledge-base-multi-selector",
        "files": "array[file]",
    }.items()
)
FULL = [f"{family}.{name}" for family, names in OPERATIONS.items() for name in names]
MORE = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

ids = st.lists(st.sampled_from(IDS), max_size=3, unique=True).map(tuple)
chosen = st.sampled_from((*IDS, "", "__none__"))
# Half of the time everything, so that the other parts of an intersection decide.
operations = st.just(FULL) | st.lists(st.sampled_from(FULL), unique=True)


def things_of(one: st.SearchStrategy[str]) -> tuple[st.SearchStrategy[OfferedThing], ...]:
    """One thing of each kind, with an id that `one` draws."""
    return (
        st.builds(
            OfferedModel,
            model_id=one,
            model_type=st.sampled_from(["llm", "rerank", "embedding", "?"]),
            context_window=st.none() | st.integers(1, 2**53),
        ),
        st.builds(
            OfferedTool,
            tool_name=one,
            tool_type=st.just("builtin"),
            risk=st.just("low"),
            definition_sha256=st.sampled_from(["0" * 64, "1" * 64]),
            description=st.none() | st.text(max_size=5),
        ),
        st.builds(OfferedKnowledgeBase, kb_id=one),
        st.builds(OfferedFile, file_id=one, source=st.sampled_from(["config", "knowledge", "elsewhere"])),
        st.builds(OfferedAgent, agent_id=one),
        st.builds(OfferedSkill, skill_name=one),
        st.builds(OfferedAction, action=one),
    )


# Some things, or every kind of two ids: then two offers have ids in common that are not the same thing.
things = st.lists(st.one_of(*things_of(st.sampled_from(IDS))), max_size=20) | st.tuples(
    *(thing for name in ("a", "b") for thing in things_of(st.just(name)))
)
offers = things.map(lambda found: Offer.of(*found))
rules = st.builds(ResourceRule, add=ids, only=st.none() | ids)
every_rule = st.just({kind: ResourceRule(add=IDS) for kind in KINDS})
configs = st.fixed_dictionaries(
    {},
    optional={
        "model": chosen,
        "spare": st.fixed_dictionaries({"primary": chosen, "fallbacks": st.lists(chosen, max_size=2)}),
        "tools": st.lists(chosen, max_size=3),
        "bases": st.lists(chosen, max_size=3),
        "files": st.lists(chosen, max_size=3),
    },
)


def _by_family(names: list[str]) -> dict[str, tuple[str, ...]]:
    return {
        family: tuple(name for name in OPERATIONS[family] if f"{family}.{name}" in names)
        for family in OPERATIONS
        if any(name.startswith(f"{family}.") for name in names)
    }


policies = st.builds(
    AgentPolicy,
    access=st.builds(
        AccessPolicy,
        permissions=operations.map(_by_family),
        resources=every_rule | st.dictionaries(st.sampled_from(KINDS), rules),
        conversations=ids,
    ),
    state=st.builds(
        StatePolicy,
        enabled=st.booleans(),
        scopes=st.lists(st.sampled_from(get_args(StateScope)), unique=True).map(tuple),
    ),
    concurrency=st.builds(ConcurrencyPolicy, mode=st.sampled_from(["steer", "queue"])),
)
agents = st.builds(
    Agent,
    agent_id=st.sampled_from(["one", "two"]),
    runner_id=st.just("plugin:acme/helper/default"),
    runner_name=st.just("default"),
    plugin=st.just("acme/helper"),
    label=st.just({"en_US": "Helper"}),
    permissions=operations.map(frozenset),
    capabilities=st.sampled_from([frozenset[str](), frozenset({"steering"})]),
    form=st.just(FORM),
    config=configs,
    policy=policies,
)
maybe = st.none() | st.sampled_from(IDS)
scopes = st.builds(
    Scope,
    workspace=st.just("default"),
    bot=maybe,
    conversation=maybe,
    thread=maybe,
    actor_type=maybe,
    actor_id=maybe,
    subject_type=maybe,
    subject_id=maybe,
)
seconds = st.floats(min_value=1e-3, max_value=86400, allow_nan=False)
some_limits = st.builds(
    GrantLimits, deadline_s=seconds, idle_s=seconds, calls_per_run=st.none() | st.integers(1, 1_000_000)
)
parents = st.none() | st.builds(
    GrantParent, run_id=st.text(max_size=8), grant_sha256=st.just("0" * 64), depth=st.integers(1, 3)
)


@st.composite
def grants(draw: st.DrawFn) -> Grant:
    return issue_grant(
        run_id=draw(st.text(max_size=8)),
        access=compile_access(draw(agents), draw(offers)),
        scope=draw(scopes),
        limits=draw(some_limits),
        graph_sha256=draw(st.none() | st.just("f" * 64)),
        parent=draw(parents),
    )


@st.composite
def revocations(draw: st.DrawFn, grant: Grant) -> Revocation:
    """Some rights of a grant."""
    names = sorted(granted_operations(grant))
    kinds = {kind: sorted(granted_things(grant, kind)) for kind in (*KINDS, "platform", "conversations")}
    return Revocation(
        operations=draw(st.frozensets(st.sampled_from(names))) if names else frozenset(),
        resources={
            kind: draw(st.frozensets(st.sampled_from(found), min_size=1))
            for kind, found in kinds.items()
            if found and draw(st.booleans())
        },
        all=draw(st.integers(0, 9)) == 0,
    )


def questions() -> Iterator[tuple[str, str | None]]:
    """Every action with everything it could name in these tests."""
    for action in ACTIONS:
        for thing in (None, *IDS, *get_args(StateScope), "plugin", "workspace", *DOCUMENTS):
            yield action, thing


DOCUMENTS = tuple(f"{documents_of(kb_id)}{name}" for kb_id in IDS for name in ("", "x"))
QUESTIONS = tuple(questions())


def allowed(grant: Grant, revoked: Revocation) -> set[tuple[str, str | None]]:
    return {question for question in QUESTIONS if isinstance(check(grant, revoked, *question), Allowed)}


ALWAYS = {question for question in QUESTIONS if question[0].startswith("host.")}


@MORE
@given(grants())
def test_the_bytes_of_a_grant_are_the_canonical_json_of_its_whole_body(grant: Grant) -> None:
    body = msgspec.json.decode(grant.json)
    assert grant.json == canonical_json(body)
    assert grant.sha256 == sha256_of(grant.json)
    assert Grant.from_json(grant.json) == grant


@pytest.mark.requirement("P03-01")
@MORE
@given(agents, offers, scopes)
def test_an_access_is_never_wider_than_any_of_its_inputs(agent: Agent, offer: Offer, scope: Scope) -> None:
    rights = compile_access(agent, offer).rights
    access = agent.policy.access
    for family, names in rights.operations.items():
        assert names
        assert names <= {*access.permissions.get(family, ())}
        assert {f"{family}.{name}" for name in names} <= agent.permissions
    for kind, held in rights.resources.items():
        rule = access.resources.get(kind)
        if rule is not None and rule.only is not None:
            assert {*held} <= {*rule.only}
        for name, each in held.items():
            assert each.operations <= rights.operations.get(kind, frozenset())
            base = base_of(name) if kind == "files" else None
            if base is not None:  # whatever asks for the base asks for its documents
                above = rights.resources["knowledge_bases"][base]
                assert "retrieve" in above.operations
                assert (each.fields, each.added) == (above.fields, above.added)
                continue
            assert name in offer.things[kind]  # type: ignore[index]
            assert kind == "platform" or each.fields or (each.added and rule is not None and name in rule.add)
            assert all(name in msgspec.json.encode(agent.config[field]).decode() for field in each.fields)
    assert rights.conversations <= {*access.conversations}
    assert rights.state_scopes <= ({*agent.policy.state.scopes} if agent.policy.state.enabled else set())
    grant = issue_grant(run_id="run", access=compile_access(agent, offer), scope=scope, limits=GrantLimits())
    assert {*grant.state_keys} <= rights.state_scopes


@MORE
@given(agents, offers)
def test_every_request_is_granted_or_withheld_with_a_reason(agent: Agent, offer: Offer) -> None:
    rights = compile_access(agent, offer).rights
    for kind, rule in agent.policy.access.resources.items():
        held, withheld = rights.resources.get(kind, {}), rights.withheld_resources.get(kind, {})
        assert {*rule.add} <= {*held, *withheld}
        assert not {*held} & {*withheld}
    for name in agent.permissions:
        family, _, operation = name.partition(".")
        assert operation in rights.operations.get(family, ()) or name in rights.withheld_operations


@pytest.mark.requirement("P03-06")
@MORE
@given(agents, offers, scopes)
def test_an_empty_policy_grants_nothing_with_any_agent_and_offer(agent: Agent, offer: Offer, scope: Scope) -> None:
    settings: dict[str, Any] = {name: getattr(agent, name) for name in Agent.__slots__}
    nothing = Agent(**(settings | {"policy": AgentPolicy(state=StatePolicy(enabled=False))}))
    grant = issue_grant(run_id="run", access=compile_access(nothing, offer), scope=scope, limits=GrantLimits())
    assert allowed(grant, NOTHING_REVOKED) == ALWAYS


@pytest.mark.requirement("P03-02")
@MORE
@given(st.data(), grants())
def test_a_revocation_only_narrows_and_removes_its_named_rights(data: st.DataObject, grant: Grant) -> None:
    before, more = data.draw(revocations(grant)), data.draw(revocations(grant))
    after = before.joined(more)
    assert allowed(grant, after) <= allowed(grant, before) <= allowed(grant, NOTHING_REVOKED)
    assert allowed(grant, after) == allowed(grant, before) & allowed(grant, more)
    assert allowed(grant, Revocation(all=True)) == ALWAYS
    for question in QUESTIONS:
        answer = check(grant, after, *question)
        free = check(grant, NOTHING_REVOKED, *question)
        assert answer == free or (isinstance(answer, Denied) and answer.code == "revoked" and free == Allowed())
    if more != NOTHING_REVOKED:
        asked = {"operations": more.operations, "resources": more.resources, "everything": more.all}
        assert revoke(grant, before, **asked) == after  # type: ignore[arg-type]
    assert Revocation.from_data(after.data()) == after


@st.composite
def families(draw: st.DrawFn) -> tuple[Grant, Revocation, Grant]:
    """A parent, its revocation, and a child that it called."""
    parent = draw(grants())
    revoked = draw(revocations(parent))
    gone: list[str] = []
    for part in (("conversation", "thread"), ("actor_type", "actor_id"), ("subject_type", "subject_id")):
        gone += part if draw(st.booleans()) else ()
    child = issue_child_grant(
        run_id="child",
        access=compile_access(draw(agents), draw(offers)),
        scope=msgspec.structs.replace(parent.scope, **dict.fromkeys(gone)),
        limits=draw(some_limits),
        parent=parent,
        revoked=revoked,
    )
    return parent, revoked, child


@pytest.mark.requirement("P06-16")
@settings(MORE, max_examples=400)
@given(families())
def test_a_child_may_do_no_more_than_its_parent(family: tuple[Grant, Revocation, Grant]) -> None:
    parent, revoked, child = family
    assert allowed(child, NOTHING_REVOKED) <= allowed(parent, revoked)
    for name in ("deadline_s", "idle_s", "calls_per_s", "calls_in_flight", "payload_bytes"):
        assert getattr(child.limits, name) <= getattr(parent.limits, name)
    if parent.limits.calls_per_run is not None:
        assert child.limits.calls_per_run is not None
        assert child.limits.calls_per_run <= parent.limits.calls_per_run
    assert {*child.access.rights.resources.get("skills", ())} <= granted_things(parent, "skills")
    assert Grant.from_json(child.json) == child


@MORE
@given(families(), agents, offers)
def test_a_grandchild_may_do_no_more_than_the_first_ancestor(
    family: tuple[Grant, Revocation, Grant], agent: Agent, offer: Offer
) -> None:
    parent, revoked, child = family
    assume(child.depth < 4)
    grandchild = issue_child_grant(
        run_id="grandchild",
        access=compile_access(agent, offer),
        scope=child.scope,
        limits=GrantLimits(),
        parent=child,
        revoked=NOTHING_REVOKED,
    )
    assert allowed(grandchild, NOTHING_REVOKED) <= allowed(child, NOTHING_REVOKED) <= allowed(parent, revoked)


@pytest.mark.requirement("P07-07")
@MORE
@given(st.data(), grants())
def test_an_ungranted_id_gets_the_same_answer_as_an_unknown_one(data: st.DataObject, grant: Grant) -> None:
    revoked = data.draw(revocations(grant))
    for action, rule in RULES.items():
        if rule.listed or action == "history.page":
            never = check(grant, revoked, action, "never-existed")
            for thing in IDS:
                answer = check(grant, revoked, action, thing)
                if isinstance(answer, Denied) and answer.code == "not_found":
                    assert answer == never
                assert not isinstance(answer, Denied) or "ghost" not in answer.sentence


@pytest.mark.requirement("P03-03", "P12-04")
@MORE
@given(grants())
def test_the_runner_sees_exactly_the_allowed_apis_and_resources(grant: Grant) -> None:
    may = allowed(grant, NOTHING_REVOKED)
    actions = {action for action, _ in may}
    apis = available_apis_of(grant)
    assert apis == {
        "history_page": "history.page" in actions,
        "history_search": "history.search" in actions,
        "event_get": "events.get" in actions,
        "event_page": "events.page" in actions,
        "artifact_metadata": "artifacts.metadata" in actions,
        "artifact_read": "artifacts.read" in actions,
        "artifact_write": "artifacts.begin" in actions,
        "state": "state.get" in actions,
        "storage": "storage.get" in actions,
        "steering_pull": "steering.pull" in actions,
    }
    seen = AgentResources.from_wire(resources_of(grant))
    assert {(f"models.{name}", each.model_id) for each in seen.models for name in each.operations} == {
        (action, thing) for action, thing in may if action.startswith("models.")
    }
    assert {(f"tools.{name}", each.tool_name) for each in seen.tools for name in each.operations} == {
        (action, thing) for action, thing in may if action.startswith("tools.")
    }
    assert {each.kb_id for each in seen.knowledge_bases if "retrieve" in each.operations} == {
        thing for action, thing in may if action == "knowledge.retrieve"
    }
    readable = {thing for action, thing in may if action == "files.get" and thing is not None}
    assert {each.file_id for each in seen.files} == {file_as_listed(thing) for thing in readable}
    assert {each.agent_id for each in seen.agents} == {thing for action, thing in may if action == "agents.call"}
    assert {*seen.platform_capabilities} == {thing for action, thing in may if action == "platform.request"}
    assert seen.storage.plugin_storage == (("storage.get", "plugin") in may)
    assert seen.storage.workspace_storage == (("storage.get", "workspace") in may)


@settings(MORE, max_examples=60)
@given(families())
def test_every_explanation_agrees_with_the_check(family: tuple[Grant, Revocation, Grant]) -> None:
    parent, revoked, child = family
    for grant, taken in ((parent, revoked), (child, NOTHING_REVOKED)):
        for action, thing in QUESTIONS:
            found = explain(grant, taken, action, thing)
            answer = check(grant, taken, action, thing)
            assert (found.allowed, found.code) == (
                isinstance(answer, Allowed),
                answer.code if isinstance(answer, Denied) else None,
            )
            assert found.reasons
            assert found.allowed or len(found.reasons) == 1
            assert all(reason.words(language) for reason in found.reasons for language in LOCALES)
        assert {each.action for each in explain_all(grant, taken)} == {*ACTIONS}


@MORE
@given(st.lists(st.tuples(agents, offers), max_size=6))
def test_a_cached_access_equals_a_compiled_one(asked: list[tuple[Agent, Offer]]) -> None:
    cache = AccessCache(entries=2)
    for agent, offer in (*asked, *asked):
        assert cache.get(agent, offer) == compile_access(agent, offer)
        assert len(cache) <= 2

"""May it? Every action of the run API, every kind of no, and the bytes of each answer."""

from typing import Any, get_args

import msgspec
import pytest
from tests.tables import for_each

from bollard.host.agents.policies import OPERATIONS, AgentPolicy, StatePolicy
from bollard.host.grants.check import RULES, Allowed, Denied, check, check_call, things_named, whole_conversation
from bollard.host.grants.offer import Offer
from bollard.host.grants.revocation import NOTHING_REVOKED, Revocation, revoke
from bollard.protocol import ACTIONS, HistoryPageQuery, ModelsEmbed, StateScope, StorageGet, ToolsDetail

GOOD: dict[str, str] = {
    "models.invoke": "chat",
    "models.stream": "chat",
    "models.rerank": "sorter",
    "models.embed": "vectors",
    "tools.detail": "clock",
    "tools.call": "clock",
    "knowledge.retrieve": "manual",
    "history.page": "here",
    "events.get": "event-1",
    "artifacts.metadata": "artifact-1",
    "artifacts.read": "artifact-1",
    "artifacts.append": "upload-1",
    "artifacts.finish": "upload-1",
    "state.get": "conversation",
    "state.set": "actor",
    "state.delete": "subject",
    "state.list": "runner",
    "storage.get": "plugin",
    "storage.set": "workspace",
    "storage.delete": "plugin",
    "storage.list": "workspace",
    "files.get": "logo",
    "agents.call": "researcher",
    "platform.request": "message.edit",
}
"""By action, a thing that the full grant has."""
LISTED = [action for action, rule in RULES.items() if rule.listed]


def code_of(answer: Allowed | Denied) -> str | None:
    return answer.code if isinstance(answer, Denied) else None


def test_every_action_has_a_rule_whose_parameter_exists() -> None:
    assert set(RULES) == set(ACTIONS)
    for action, rule in RULES.items():
        assert rule.parameter is None or rule.parameter in ACTIONS[action].params.model_fields
    assert {action for action, rule in RULES.items() if rule.parameter is not None} == set(GOOD)


@for_each("action", ACTIONS)
def test_the_full_grant_allows_every_action(granting: Any, action: str) -> None:
    assert check(granting.grant(), NOTHING_REVOKED, action, GOOD.get(action)) == Allowed()


@pytest.mark.requirement("P03-06")
@for_each("action", ACTIONS)
def test_an_empty_policy_allows_only_questions_to_the_host(granting: Any, action: str) -> None:
    nothing = AgentPolicy(state=StatePolicy(enabled=False))
    answer = check(granting.grant(granting.agent(policy=nothing)), NOTHING_REVOKED, action, GOOD.get(action))
    assert code_of(answer) == (None if action.startswith("host.") else "unauthorized")


@pytest.mark.requirement("P07-08")
@for_each("action", [action for action in ACTIONS if ACTIONS[action].permission is not None])
def test_without_its_family_an_action_is_unauthorized(granting: Any, action: str) -> None:
    family = RULES[action].family
    agent = granting.agent(
        policy=granting.policy(permissions={each: names for each, names in OPERATIONS.items() if each != family})
    )
    answer = check(granting.grant(agent), NOTHING_REVOKED, action, GOOD.get(action))
    assert isinstance(answer, Denied)
    assert (answer.code, answer.sentence) == ("unauthorized", f"{family} is not granted to this run")
    assert "policy." in answer.hint


@pytest.mark.requirement("P07-07")
@for_each("action", LISTED)
def test_absent_foreign_and_ungranted_resources_get_the_same_bytes_without_the_id(granting: Any, action: str) -> None:
    family = RULES[action].family
    good = GOOD[action]
    full = granting.grant()
    ungranted = granting.grant(granting.agent(policy=granting.policy(resources={})), offer=_without_platform(granting))
    answers = {
        check(full, NOTHING_REVOKED, action, "never-existed"),
        check(full, NOTHING_REVOKED, action, f"another-workspace-{good}"),
        check(full, NOTHING_REVOKED, action, ""),
        check(full, NOTHING_REVOKED, action, None),
        check(ungranted, NOTHING_REVOKED, action, good),
        check(granting.grant(offer=Offer.of()), NOTHING_REVOKED, action, good),
    }
    assert len(answers) == 1, family
    answer = answers.pop()
    assert isinstance(answer, Denied)
    assert answer.code == "not_found"
    assert good not in answer.sentence


def _without_platform(granting: Any) -> Offer:
    return Offer.of(
        *(thing for kind, things in granting.offer.things.items() if kind != "platform" for thing in things.values())
    )


@pytest.mark.requirement("P07-08")
@pytest.mark.parametrize(
    ("action", "thing"),
    [("models.rerank", "chat"), ("models.embed", "chat"), ("models.invoke", "sorter"), ("models.stream", "vectors")],
)
def test_an_operation_that_does_not_fit_a_granted_resource_is_denied(granting: Any, action: str, thing: str) -> None:
    assert code_of(check(granting.grant(), NOTHING_REVOKED, action, thing)) == "capability_denied"


@pytest.mark.requirement("P07-08")
@for_each(
    ("family", "left", "action", "thing"),
    [
        ("models", ("invoke",), "models.stream", "chat"),
        ("tools", ("detail",), "tools.call", "clock"),
        ("tools", ("call",), "tools.detail", "clock"),
        ("knowledge_bases", ("list",), "knowledge.retrieve", "manual"),
        ("knowledge_bases", ("retrieve",), "knowledge.list", None),
        ("history", ("search",), "history.page", None),
        ("history", ("page",), "history.search", None),
        ("events", ("page",), "events.get", "event-1"),
        ("events", ("get",), "events.page", None),
        ("artifacts", ("metadata",), "artifacts.read", "artifact-1"),
        ("artifacts", ("read",), "artifacts.metadata", "artifact-1"),
        ("artifacts", ("read",), "artifacts.begin", None),
        ("artifacts", ("read",), "artifacts.append", "upload-1"),
        ("artifacts", ("read",), "artifacts.finish", "upload-1"),
        ("storage", ("plugin",), "storage.get", "workspace"),
        ("storage", ("workspace",), "storage.set", "plugin"),
        ("storage", ("workspace",), "storage.list", None),
    ],
)
def test_a_granted_family_without_this_operation_is_capability_denied(
    granting: Any, family: str, left: tuple[str, ...], action: str, thing: str | None
) -> None:
    agent = granting.agent(policy=granting.policy(permissions={**OPERATIONS, family: left}))
    assert code_of(check(granting.grant(agent), NOTHING_REVOKED, action, thing)) == "capability_denied"


def test_a_file_of_a_source_that_is_not_granted_looks_absent(granting: Any) -> None:
    grant = granting.grant(granting.agent(policy=granting.policy(permissions={"files": ("config",)})))
    assert check(grant, NOTHING_REVOKED, "files.get", "logo") == Allowed()
    assert check(grant, NOTHING_REVOKED, "files.get", "book") == check(grant, NOTHING_REVOKED, "files.get", "ghost")


@pytest.mark.requirement("P02-20")
@for_each("action", ["state.get", "state.set", "state.delete", "state.list"])
@for_each("scope", get_args(StateScope))
def test_state_needs_a_policy_and_the_subject_of_its_scope(granting: Any, action: str, scope: str) -> None:
    def answer(policy: StatePolicy, **gone: None) -> str | None:
        agent = granting.with_state(granting.agent(), policy)
        grant = granting.grant(agent, msgspec.structs.replace(granting.scope, **gone))
        return code_of(check(grant, NOTHING_REVOKED, action, scope))

    every = get_args(StateScope)
    assert answer(StatePolicy(scopes=every)) is None
    assert answer(StatePolicy(enabled=False, scopes=every)) == "unauthorized"
    assert answer(StatePolicy(scopes=())) == "unauthorized"
    assert answer(StatePolicy(scopes=tuple(each for each in every if each != scope))) == "capability_denied"
    if scope != "runner":
        gone = {"conversation": "conversation", "actor": "actor_id", "subject": "subject_id"}[scope]
        assert answer(StatePolicy(scopes=every), **{gone: None}) == "not_found"


@pytest.mark.parametrize("scope", [None, "everything"])
def test_a_state_scope_that_does_not_exist_is_denied(granting: Any, scope: str | None) -> None:
    assert code_of(check(granting.grant(), NOTHING_REVOKED, "state.get", scope)) == "capability_denied"


@pytest.mark.requirement("P02-19")
@pytest.mark.parametrize("conversation", ["here", None])
@pytest.mark.parametrize("capable", [True, False])
def test_steering_needs_a_conversation(granting: Any, conversation: str | None, capable: bool) -> None:
    agent = granting.agent(capabilities=frozenset({"steering"} if capable else ()))
    grant = granting.grant(agent, msgspec.structs.replace(granting.scope, conversation=conversation))
    answer = check(grant, NOTHING_REVOKED, "steering.pull")
    assert code_of(answer) == (None if capable and conversation else "unauthorized")


@for_each(
    ("own", "asked", "code"),
    [
        ("here", None, None),
        ("here", "here", None),
        ("here", "elsewhere", None),
        ("here", "nowhere", "not_found"),
        ("here", "", "not_found"),
        (None, None, "not_found"),
        (None, "here", "not_found"),
        (None, "elsewhere", None),
    ],
)
def test_history_covers_this_conversation_and_those_of_the_policy(
    granting: Any, own: str | None, asked: str | None, code: str | None
) -> None:
    grant = granting.grant(scope=msgspec.structs.replace(granting.scope, conversation=own))
    assert code_of(check(grant, NOTHING_REVOKED, "history.page", asked)) == code
    assert code_of(check(grant, NOTHING_REVOKED, "history.search")) == (None if own else "not_found")


def test_only_a_conversation_in_the_policy_is_read_as_a_whole(granting: Any) -> None:
    grant = granting.grant()
    taken = revoke(grant, NOTHING_REVOKED, resources={"conversations": ["elsewhere"]})
    assert whole_conversation(grant, NOTHING_REVOKED, "elsewhere")
    assert not whole_conversation(grant, NOTHING_REVOKED, "here")
    assert not whole_conversation(grant, taken, "elsewhere")


@pytest.mark.parametrize(
    ("action", "kind", "thing"),
    [("knowledge.list", "knowledge_bases", "manual"), ("history.search", "conversations", "elsewhere")],
)
def test_a_call_without_a_resource_is_not_checked_against_one(
    granting: Any, action: str, kind: str, thing: str
) -> None:
    grant = granting.grant()
    taken = revoke(grant, NOTHING_REVOKED, resources={kind: [thing]})
    assert check(grant, taken, action, thing) == check(grant, taken, action) == Allowed()


def test_an_action_that_does_not_exist_is_denied(granting: Any) -> None:
    assert code_of(check(granting.grant(), NOTHING_REVOKED, "models.delete", "chat")) == "unauthorized"


def test_a_call_is_checked_against_the_resources_in_its_parameters(granting: Any) -> None:
    grant = granting.grant()

    def asked(action: str, params: Any) -> str | None:
        return code_of(check_call(grant, NOTHING_REVOKED, action, params))

    assert asked("models.embed", ModelsEmbed(model_id="vectors", texts=("a",))) is None
    assert asked("models.embed", ModelsEmbed(model_id="chat", texts=("a",))) == "capability_denied"
    assert asked("storage.get", StorageGet(area="plugin", key="k")) is None
    assert asked("history.page", HistoryPageQuery(conversation_id="nowhere")) == "not_found"
    assert asked("history.page", HistoryPageQuery()) is None


def test_a_call_with_several_resources_needs_each_of_them(granting: Any) -> None:
    grant = granting.grant()
    assert things_named("tools.detail", ToolsDetail(names=("clock", "ghost"))) == ("clock", "ghost")
    assert check_call(grant, NOTHING_REVOKED, "tools.detail", ToolsDetail(names=("clock", "clock"))) == Allowed()
    answer = check_call(grant, NOTHING_REVOKED, "tools.detail", ToolsDetail(names=("clock", "ghost")))
    assert answer == check(grant, NOTHING_REVOKED, "tools.detail", "never-existed")


@pytest.mark.requirement("P07-08")
@for_each("action", [action for action in ACTIONS if not action.startswith("host.")])
def test_only_a_revoked_permission_is_reported_as_revoked(granting: Any, action: str) -> None:
    everything = Revocation(all=True)
    assert code_of(check(granting.grant(), everything, action, GOOD.get(action))) == "revoked"
    nothing = granting.grant(granting.agent(policy=AgentPolicy(state=StatePolicy(enabled=False))))
    assert code_of(check(nothing, everything, action, GOOD.get(action))) == "unauthorized"

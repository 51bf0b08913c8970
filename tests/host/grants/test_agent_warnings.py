"""Warnings about an agent: each thing that its runs would lack has one, with the command that mends it."""

import string
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.replacement import replace
from tests.tables import for_each

from bollard.cli.language import read_texts
from bollard.host.agents.policies import AgentPolicy, ResourceRule, policy_from_wire, policy_to_wire
from bollard.host.capabilities.capability import Capability
from bollard.host.grants.agent_warnings import WARNINGS, warnings_of
from bollard.host.grants.offer import Offer, OfferedTool
from bollard.host.log.saved_resources import SavedChanges
from bollard.host.models.registry import ModelRegistry
from bollard.host.models.source import ModelSource
from bollard.host.reason import why
from bollard.protocol import FormItem


def field(kind: str, *, required: bool = False) -> FormItem:
    return FormItem.from_wire({"name": "x", "type": kind, "label": {"en_US": "x"}, "required": required})


def told(granting: Any, agent: Any, offer: Offer | None = None) -> list[tuple[str, str]]:
    """Reason and hint of each warning."""
    wire = [each.to_wire() for each in warnings_of(agent, offer or granting.offer)]
    return [(str(each["reason"]), str(each["hint"])) for each in wire]


def test_an_agent_with_all_its_resources_has_no_warning(granting: Any) -> None:
    assert warnings_of(granting.agent(), granting.offer) == ()


@for_each(
    ("form_type", "value", "reason", "hint"),
    [
        ("llm-model-selector", "zzz", "missing_models", "`bollard models add zzz --preset NAME`"),
        ("llm-model-selector", "chatt", "misspelt", "did you mean chat?"),
        ("model-fallback-selector", {"primary": "chat", "fallbacks": ["zzz"]}, "missing_models", "models add zzz"),
        ("tool-multi-selector", ["tool:acme/x/zzz"], "missing_tools", "`bollard capabilities`"),
        ("knowledge-base-multi-selector", ["zzz"], "missing_knowledge_bases", "`bollard knowledge add zzz`"),
        ("file", "zzz", "missing_files", "`bollard files list`"),
    ],
)
def test_a_warning_about_a_missing_resource_has_its_remedy(
    granting: Any, form_type: str, value: Any, reason: str, hint: str
) -> None:
    agent = granting.agent(form=(field(form_type),), config={"x": value}, policy=granting.policy(resources={}))
    ((found, advice),) = told(granting, agent)
    assert found == reason
    assert hint in advice


def test_a_tool_is_found_by_the_name_that_models_see(granting: Any) -> None:
    offer = Offer.of(
        OfferedTool(tool_name="tool:builtin/now", tool_type="builtin", risk="low", definition_sha256="a" * 64)
    )
    policy = granting.policy(resources={"tools": ResourceRule(add=("now",))})
    assert told(granting, granting.agent(policy=policy), offer) == [("misspelt", "did you mean tool:builtin/now?")]


def test_a_warning_about_an_absent_tool_has_the_reason(granting: Any) -> None:
    offer = Offer.of(absent={"mcp:files/": why("The MCP server files is not connected.", "mcp.off", server="files")})
    policy = granting.policy(resources={"tools": ResourceRule(add=("mcp:files/read",))})
    (warning,) = warnings_of(granting.agent(policy=policy), offer)
    assert (warning.reason, warning.details["problem"]) == ("absent", "The MCP server files is not connected")
    assert (warning.details["problem_type"], warning.details["server"]) == ("mcp.off", "files")


@for_each(
    ("permissions", "reason", "hint"),
    [
        ({"tools": ("detail",)}, "not_permitted", """'policy.access.permissions.tools=["detail","call"]'`"""),
        ({"models": ("stream",)}, "not_permitted", """'policy.access.permissions.tools=["call"]'`"""),
    ],
)
def test_a_warning_about_a_forbidden_tool_has_the_command_that_permits_it(
    granting: Any, permissions: dict[str, tuple[str, ...]], reason: str, hint: str
) -> None:
    policy = granting.policy(permissions=permissions, resources={"tools": ResourceRule(add=("clock",))})
    assert told(granting, granting.agent(policy=policy)) == [(reason, f"permit it: `bollard agents set helper {hint}")]


def test_warnings_name_unrequested_excluded_and_unfit_resources(granting: Any) -> None:
    tools = {"tools": ResourceRule(add=("clock",))}
    silent = granting.agent(permissions=frozenset({"models.stream"}), policy=granting.policy(resources=tools))
    assert [reason for reason, _ in told(granting, silent)] == ["not_requested"]
    limited = granting.policy(resources={"tools": ResourceRule(add=("clock",), only=())})
    assert [reason for reason, _ in told(granting, granting.agent(policy=limited))] == ["excluded"]
    painter = granting.policy(resources={"models": ResourceRule(add=("painter",))})
    assert [reason for reason, _ in told(granting, granting.agent(policy=painter))] == ["unfit"]


def test_an_empty_policy_gives_one_warning(granting: Any) -> None:
    agent = granting.agent(form=(field("llm-model-selector"),), config={"x": "chat"}, policy=AgentPolicy())
    ((reason, hint),) = told(granting, agent)
    assert reason == "no_permissions"
    assert "`bollard agents new helper --runner plugin:acme/helper/default`" in hint


def test_a_workspace_without_the_default_model_gets_a_warning(granting: Any) -> None:
    registry = ModelRegistry(SavedChanges(None, ManualClock()), default_model="smart")  # type: ignore[arg-type]
    offer = Offer.of(capabilities=ModelSource(registry).capabilities(granting.agent().workspace))
    agent = granting.agent(
        form=(field("llm-model-selector"),), config={"x": "default"}, policy=granting.policy(resources={})
    )
    ((reason, hint),) = told(granting, agent, offer)
    assert reason == "default_missing"
    assert hint.startswith("run `BOLLARD_WORKSPACE=default bollard models add smart --preset NAME`")


def test_a_missing_required_value_and_an_absent_runner_give_warnings(granting: Any) -> None:
    agent = granting.agent(form=(field("llm-model-selector", required=True),), policy=granting.policy(resources={}))
    assert told(granting, agent) == [("unset", "set it: `bollard agents set helper config.x=VALUE`")]
    (away,) = warnings_of(agent, granting.offer, available=False)
    assert away.reason == "runner_absent"


@pytest.mark.parametrize("reason", WARNINGS)
def test_each_warning_has_a_chinese_text_with_the_same_fields(reason: str) -> None:
    def names(*texts: str) -> set[str]:
        return {name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name}

    chinese = read_texts("zh_Hans/reasons")[f"agent_warning.{reason}"]
    assert names(chinese["message"]) == names(WARNINGS[reason][0])
    assert names(chinese["hint"]) == names(WARNINGS[reason][1])


def test_a_rule_that_matches_nothing_or_changes_nothing_is_told(granting: Any) -> None:
    strict = replace(granting.offer, capabilities={"tool:t/strict": _tool("strict", approval="always")})
    bodies = [
        {"capability": "tool:t/*", "decision": "never"},
        {"capability": "tool:elsewhere/*", "decision": "always"},
        {"capability": "tool:t/strict", "decision": "always"},
    ]
    policy = policy_from_wire({**policy_to_wire(granting.agent().policy), "approval": {"rules": bodies}})
    found = warnings_of(granting.agent(policy=policy), strict)
    told = {(each.reason, each.details["field"]) for each in found if each.reason.startswith("rule_")}
    assert told == {("rule_ineffective", "policy.approval.rules.0"), ("rule_unmatched", "policy.approval.rules.1")}


def _tool(name: str, **more: Any) -> Capability:
    return Capability(
        id=f"tool:t/{name}", name=name, kind="tool", description="", input_schema={}, source="builtin", **more
    )

"""Warnings about an agent: resources that it names and runs would not get, with the command that mends it.

A warning refuses nothing, because a model, a plugin or a permission may come later (ADR 0106). Pure: derived from the
access that a run would get now.
"""

import difflib
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import msgspec

from bollard.host.agents.agent import Agent
from bollard.host.agents.config_form import unset_fields
from bollard.host.grants.access import ABLE_TO, ResourceRequest, Rights, compile_access, requested_resources
from bollard.host.grants.offer import KINDS, Kind, Offer, operations_that_fit
from bollard.host.limits import AGENT_WARNINGS
from bollard.protocol import JsonObject

_CALLED: Final[Mapping[Kind, str]] = {"tools": "call", "knowledge_bases": "retrieve", "agents": "call"}
"""The operation without which a resource of the kind is of no use."""
_LENGTHS: Final = 2
"""Characters that a misspelt id may have more or fewer."""
_COMPARED: Final = 100
"""Ids that a misspelt one is compared with."""

WARNINGS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "runner_absent": (
            "the runner {runner} is not available",
            "`bollard plugin list` shows whether its plugin is installed, enabled and healthy",
        ),
        "no_permissions": (
            "the policy permits nothing, but the runner requests {operations}",
            "`bollard agents new {agent} --runner {runner}` prints a draft that permits all of it",
        ),
        "unset": (
            "{field} is not set, and the runner requires it",
            "set it: `bollard agents set {agent} {field}=VALUE`",
        ),
        "missing_models": (
            "{field} names the model {id}, which does not exist",
            "add it with `bollard models add {id} --preset NAME`, or choose one of `bollard models`",
        ),
        "missing_tools": (
            "{field} names the tool {id}, which does not exist",
            "choose one of `bollard capabilities`, or install the plugin or MCP server that offers it",
        ),
        "missing_knowledge_bases": (
            "{field} names the knowledge base {id}, which does not exist",
            "create it with `bollard knowledge add {id}`, or choose one of `bollard knowledge`",
        ),
        "missing_files": (
            "{field} names the file {id}, which does not exist",
            "`bollard files list` lists them; upload the file first",
        ),
        "missing_agents": (
            "{field} names the agent {id}, which does not exist",
            "save it first, or choose one of `bollard agents`",
        ),
        "missing_skills": ("{field} names the skill {id}, which does not exist", "choose one of `bollard skills`"),
        "misspelt": ("{field} names {id}, which does not exist", "did you mean {near}?"),
        "absent": (
            "{field} names {id}, which is not available now: {problem}",
            "`bollard capabilities` shows its state",
        ),
        "excluded": (
            "{field} names {id}, but policy.access.resources.{kind}.only leaves it out",
            "add {id} to policy.access.resources.{kind}.only, or remove the limit",
        ),
        "not_permitted": (
            "{field} names {id}, but the policy does not permit {operation}",
            "permit it: `bollard agents set {agent} 'policy.access.permissions.{kind}={permitted}'`",
        ),
        "not_requested": (
            "{field} names {id}, but the runner does not request {operation}",
            "choose a runner that does; `bollard agents new` shows what a runner requests",
        ),
        "unfit": (
            "{field} names {id}, but no permitted operation applies to it",
            "choose another one; `bollard capabilities` shows the types",
        ),
        "rule_unmatched": (
            "{field} names {id}, which matches no capability of the workspace",
            "choose one of `bollard capabilities`, or install the plugin or MCP server that offers it",
        ),
        "rule_ineffective": (
            "{field} asks never for {id}, but these capabilities require approval themselves",
            "an agent can only be stricter; change the capability, for example with `bollard mcp consent`",
        ),
        "default_missing": (
            "{field} names the model default, but the workspace {workspace} has no default model",
            "run `{command}`; each workspace has its own models",
        ),
    }
)
"""Message and hint by reason, with the fields of the details."""


class AgentWarning(msgspec.Struct, frozen=True):
    """One thing that runs of an agent would lack."""

    reason: str
    details: Mapping[str, Any]

    def to_wire(self) -> JsonObject:
        message, hint = (each.format(**self.details) for each in WARNINGS[self.reason])
        return {"reason": self.reason, "message": message, "hint": hint, "details": {**self.details}}


def warnings_of(agent: Agent, offer: Offer, *, available: bool = True) -> tuple[AgentWarning, ...]:
    """The first warnings about an agent in its workspace. Of an agent whose runner is not `available`, nothing else is
    known."""
    if not available:
        return (AgentWarning("runner_absent", {"runner": agent.runner_id}),)
    return tuple(islice(_warnings(agent, offer), AGENT_WARNINGS))


def _warnings(agent: Agent, offer: Offer) -> Iterator[AgentWarning]:
    yield from _without_permissions(agent)
    for name in unset_fields(agent.config, agent.form):
        yield AgentWarning("unset", {"field": f"config.{name}", "agent": agent.agent_id})
    rights, requests = compile_access(agent, offer).rights, requested_resources(agent)
    for kind in KINDS:
        for name in sorted(requests[kind]):
            yield from _about(agent, offer, rights, kind, name, requests[kind][name])
    for index, rule in enumerate(agent.policy.approval.rules):
        details = {"field": f"policy.approval.rules.{index}", "id": rule.capability}
        covered = [each for each in offer.capabilities.values() if rule.covers(each.id)]
        if not covered:
            yield AgentWarning("rule_unmatched", details)
        elif rule.decision == "never" and all(each.requires_approval for each in covered):
            yield AgentWarning("rule_ineffective", details)


def _without_permissions(agent: Agent) -> Iterator[AgentWarning]:
    if agent.permissions and not agent.policy.access.permissions:
        details = {"operations": ", ".join(sorted(agent.permissions)), "agent": agent.agent_id}
        yield AgentWarning("no_permissions", {**details, "runner": agent.runner_id})


def _about(
    agent: Agent, offer: Offer, rights: Rights, kind: Kind, name: str, request: ResourceRequest
) -> Iterator[AgentWarning]:
    field = f"config.{request.fields[0]}" if request.fields else f"policy.access.resources.{kind}.add"
    details = {"field": field, "kind": kind, "id": name}
    withheld = rights.withheld_resources.get(kind, {}).get(name)
    if withheld == "workspace":
        yield _missing(offer, rights, kind, name, details)
    elif withheld == "policy":
        yield AgentWarning("excluded", details)
    elif withheld == "manifest":
        yield AgentWarning("not_requested", {**details, "operation": ABLE_TO[name]})
    elif (lacking := _lacking(agent, offer, rights, kind, name)) is not None:
        if agent.policy.access.permissions:  # otherwise one warning says all
            yield AgentWarning(lacking[0], {**details, **lacking[1]})
    elif withheld is not None:
        yield AgentWarning("unfit", details)
    capability = offer.capabilities.get(f"model:{name}") if kind == "models" else None
    if capability is not None and (command := capability.about.get("missing_default")) is not None:
        yield AgentWarning("default_missing", {**details, "workspace": agent.workspace, "command": command})


def _missing(offer: Offer, rights: Rights, kind: Kind, name: str, details: Mapping[str, str]) -> AgentWarning:
    if (absent := rights.why_absent(name)) is not None:
        return AgentWarning("absent", {**absent.details, "problem": absent.sentence.rstrip("."), **details})
    last = name.rpartition("/")[2]  # people give the name that models see
    by_name = [each for each in offer.things[kind] if each.rpartition("/")[2] == last] if kind == "tools" else []
    similar = (each for each in offer.things[kind] if abs(len(each) - len(name)) <= _LENGTHS)
    near = by_name or difflib.get_close_matches(name, [*islice(similar, _COMPARED)], n=1, cutoff=0.8)
    if near:
        return AgentWarning("misspelt", {**details, "near": near[0]})
    return AgentWarning(f"missing_{kind}", details)


def _lacking(agent: Agent, offer: Offer, rights: Rights, kind: Kind, name: str) -> tuple[str, dict[str, str]] | None:
    """The operation that a resource needs and the agent does not have: the reason and its details."""
    if kind == "skills":
        return None
    granted = rights.operations.get(kind, frozenset[str]())
    needed = [_CALLED[kind]] if kind in _CALLED else [*operations_that_fit(offer.things[kind][name])]
    if not needed or granted.intersection(needed):
        return None
    requested = [each for each in needed if f"{kind}.{each}" in agent.permissions]
    if not requested:
        return "not_requested", {"operation": f"{kind}.{needed[0]}"}
    permitted = [*agent.policy.access.permissions.get(kind, ()), *requested]
    listed = json.dumps(permitted, separators=(",", ":"))
    return "not_permitted", {"operation": f"{kind}.{requested[0]}", "agent": agent.agent_id, "permitted": listed}

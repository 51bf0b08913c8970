"""Explanations of grants: whether manifest, policy, configuration, workspace, scope, parent or revocation decided.

`check` decides; this module only finds the reasons. They are for operators: they name ids, so a runner never sees them.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, cast, get_args

import msgspec

from bollard.host.agents.policies import OPERATIONS
from bollard.host.capabilities.graph import CALL, CapabilityGraph, Node
from bollard.host.capabilities.sources import why_absent
from bollard.host.grants.access import ABLE_TO, GrantedResource, Rights
from bollard.host.grants.check import RULES, ActionRule, Denied, check
from bollard.host.grants.grant import Grant
from bollard.host.grants.offer import Kind, Offer, file_as_listed
from bollard.host.grants.revocation import NOTHING_REVOKED, Revocation
from bollard.host.reason import Why
from bollard.host.texts import read_texts
from bollard.protocol import ErrorCode, JsonObject, StateScope

WORDS: Final = read_texts("grants")

Layer = Literal["protocol", "manifest", "policy", "configuration", "workspace", "scope", "parent", "revocation"]
_STATE_SCOPES = get_args(StateScope)


class Reason(msgspec.Struct, frozen=True):
    """One decision, by its stable key. The part before the dot is the layer that decided."""

    key: str
    fields: Mapping[str, str]
    problem: Why | None = None
    """Why the workspace does not offer the resource, with the details by which a translation is found."""

    @property
    def layer(self) -> Layer:
        layer, dot, _ = self.key.partition(".")
        return cast("Layer", layer) if dot else "protocol"

    def words(self, language: str = "en_US") -> str:
        """The sentence in a language."""
        return WORDS[language][self.key].format(**self.fields)

    def to_wire(self, language: str) -> JsonObject:
        shown: JsonObject = {"layer": self.layer, "text": self.words(language)}
        if self.problem is not None:
            named: JsonObject = {"thing": self.fields["thing"], "problem": self.problem.sentence}
            shown |= {**named, "problem_details": {**self.problem.details}}
        return shown


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A decision with its reasons: all that agreed if it is allowed, otherwise those that denied it."""

    action: str
    thing: str | None
    allowed: bool
    code: ErrorCode | None
    reasons: tuple[Reason, ...]


def explain(grant: Grant, revoked: Revocation, action: str, thing: str | None = None) -> Explanation:
    """Why this action on this resource is allowed or denied."""
    answer = check(grant, revoked, action, thing)
    rule = RULES.get(action)
    if rule is not None and rule.family == "tools" and thing is not None:
        thing = grant.access.tool_ids.get(thing, thing)
    if rule is not None and rule.family == "files" and thing is not None:
        thing = file_as_listed(thing)
    if rule is None:
        reasons = (_reason("unknown_action", action=action),)
    elif rule.family == "host":
        reasons = (_reason("always"),)
    elif not isinstance(answer, Denied):
        reasons = (*_agreed(grant, rule, thing), _reason("revocation.none"))
    elif answer.code == "revoked":
        reasons = (_reason("revocation.took"),)
    else:
        reasons = (_denied(grant, rule, thing),)
    code = answer.code if isinstance(answer, Denied) else None
    return Explanation(action=action, thing=thing, allowed=code is None, code=code, reasons=reasons)


def explain_all(grant: Grant, revoked: Revocation = NOTHING_REVOKED) -> tuple[Explanation, ...]:
    """Explain every action of the run API for every resource that the grant knows."""
    return tuple(
        explain(grant, revoked, rule.action, thing) for rule in RULES.values() for thing in _known(grant, rule)
    )


def _known(grant: Grant, rule: ActionRule) -> tuple[str | None, ...]:
    rights = grant.access.rights
    if rule.family == "state":
        return _STATE_SCOPES
    if rule.family == "storage":
        return OPERATIONS["storage"]
    if rule.action == "history.page":
        return (None, *sorted({*rights.conversations, *rights.withheld_resources.get("conversations", ())}))
    if not rule.listed:
        return (None,)
    known = {*rights.resources.get(rule.family, ()), *rights.withheld_resources.get(rule.family, ())}
    return (*sorted(known),) or (None,)


def _reason(key: str, **fields: str) -> Reason:
    return Reason(key, fields)


def _agreed(grant: Grant, rule: ActionRule, thing: str | None) -> Iterator[Reason]:
    """The layers that agreed, in the order of the intersection."""
    rights = grant.access.rights
    if rule.family == "state":
        yield _reason("policy.state", scope=thing or "")
        if thing != "runner":
            yield _reason("scope.has", scope=thing or "")
        return
    if rule.family == "steering":
        yield _reason("manifest.steers")
        yield _reason("policy.steers")
        yield _reason("scope.has", scope="conversation")
        return
    name = _operation_name(rights, rule, thing)
    yield _reason("manifest.names", operation=name)
    yield _reason("policy.names", operation=name)
    if rule.listed and thing is not None:
        yield from _granted_by(rights.resources[rule.family][thing], thing)
    elif rule.family == "history" and not _own(grant, rule, thing):
        yield _reason("policy.conversation", thing=thing or "")
    elif rule.family == "history":
        yield _reason("scope.has", scope="conversation")


def _own(grant: Grant, rule: ActionRule, conversation: str | None) -> bool:
    """Whether a call concerns the run's own conversation."""
    return rule.parameter is None or conversation is None or conversation == grant.scope.conversation


def _granted_by(resource: GrantedResource, thing: str) -> Iterator[Reason]:
    for field in resource.fields:
        yield _reason("configuration.selects", field=field, thing=thing)
    if resource.added:
        yield _reason("policy.adds", thing=thing)
    yield _reason("workspace.offers", thing=thing)


def _operation_name(rights: Rights, rule: ActionRule, thing: str | None) -> str:
    """The full name of the operation. It depends on the source of a file; for an unknown file it is the family."""
    if rule.operation is not None:
        return f"{rule.family}.{rule.operation}"
    if rule.family == "files":
        files = rights.resources.get("files", {})
        return f"files.{next(iter(files[thing].operations))}" if thing is not None and thing in files else "files"
    return f"{rule.family}.{thing}" if thing is not None else rule.family


def _denied(grant: Grant, rule: ActionRule, thing: str | None) -> Reason:
    """The first layer that denied the call, in the order of `check`."""
    rights = grant.access.rights
    if rule.family == "state":
        return _state_refused(grant, thing)
    if rule.family == "steering":
        return _steering_refused(rights)
    name = _operation_name(rights, rule, thing)
    operations = rights.operations.get(rule.family, frozenset[str]())
    if operations and thing is None and rule.operation is None:
        return _reason("names_nothing")
    if not operations or (not rule.listed and name.partition(".")[2] not in operations):
        return _operation_refused(rights, rule.family, name)
    if rule.family == "history":
        if _own(grant, rule, thing):
            return _reason("scope.lacks", scope="conversation")
        if thing in rights.withheld_resources.get("conversations", {}):
            return _reason("parent.no_conversation", thing=thing or "")
        return _reason("policy.no_conversation", thing=thing or "")
    return _thing_refused(rights, rule, name, thing)


def _operation_refused(rights: Rights, family: str, name: str) -> Reason:
    """An operation that neither manifest nor policy names counts as missing in the manifest."""
    if name == family:  # the whole family: any of its operations
        name = next((each for each in rights.withheld_operations if each.startswith(f"{family}.")), name)
    why = rights.withheld_operations.get(name, "manifest")
    if why == "depth":
        return _reason("parent.depth")
    return _reason(f"{why}.lacks", operation=name)


def _thing_refused(rights: Rights, rule: ActionRule, name: str, thing: str | None) -> Reason:
    if thing is None:
        return _reason("names_nothing")
    granted = rights.operations[rule.family]
    why = rights.withheld_resources.get(rule.family, {}).get(thing)
    if rule.family == "tools" and (absent := rights.why_absent(thing)) is not None:
        return _absent(thing, absent)
    if rule.family == "files" and why == "unfit" and len(granted) < len(OPERATIONS["files"]):
        missing = next(each for each in OPERATIONS["files"] if each not in granted)  # the source that is not granted
        return _operation_refused(rights, "files", f"files.{missing}")
    if thing in rights.resources.get(rule.family, {}) or why == "unfit":
        # The operation is not granted for the resource: denied as such, or the resource does not support it.
        if rule.operation is None or rule.operation in granted:
            return _reason("workspace.unfit", thing=thing, operation=name)
        return _operation_refused(rights, rule.family, name)
    if why == "workspace" or (why is None and rule.family == _EVERYTHING_OFFERED):
        return _reason("workspace.lacks", thing=thing)
    if why == "manifest":
        return _reason("manifest.unable", thing=thing, capability=ABLE_TO.get(thing, ""))
    if why == "policy":
        return _reason("policy.cuts", thing=thing)
    if why == "depth":
        return _reason("parent.depth")
    if why == "parent":
        return _reason("parent.lacks_thing", thing=thing)
    return _reason("configuration.lacks", thing=thing)


_EVERYTHING_OFFERED: Kind = "platform"
"""The kind without selection: an absent resource is not offered."""


def _state_refused(grant: Grant, scope: str | None) -> Reason:
    rights = grant.access.rights
    if rights.withheld_operations.get(f"state.{scope}") == "parent":
        return _reason("parent.lacks", operation=f"state.{scope}")
    if scope in rights.state_scopes:
        return _reason("scope.lacks", scope=scope)
    return _reason("policy.no_state", scope=scope or "")


def _steering_refused(rights: Rights) -> Reason:
    if rights.steering:
        return _reason("scope.lacks", scope="conversation")
    why = rights.withheld_operations.get("steering.pull", "manifest")
    return _reason("parent.lacks", operation="steering.pull") if why == "parent" else _reason(f"{why}.does_not_steer")


# --- capabilities ---


def concerned(grant: Grant, graph: CapabilityGraph) -> list[str]:
    """The ids of all capabilities that are in the graph or were requested."""
    return sorted({*(node.capability.id for node in graph.nodes), *graph.missing, *_requested_tools(grant)})


def explain_capability(grant: Grant, graph: CapabilityGraph, offer: Offer, id_or_name: str) -> Explanation:
    """Why a capability, by its id or short name, is in the graph of an agent's runs or is not. It may be unknown."""
    node = graph.node(id_or_name)
    if node is not None and CALL not in node.operations:
        return _through_another_family(grant, node)
    call = explain(grant, NOTHING_REVOKED, CALL, id_or_name)
    if (
        call.allowed
        or call.thing in _requested_tools(grant)
        or any(each.key != "configuration.lacks" for each in call.reasons)
    ):
        return call
    return Explanation(
        action=CALL,
        thing=call.thing,
        allowed=False,
        code=call.code,
        reasons=(*call.reasons, *_not_offered(offer, id_or_name)),
    )


def _requested_tools(grant: Grant) -> frozenset[str]:
    rights = grant.access.rights
    return frozenset({*rights.resources.get("tools", ()), *rights.withheld_resources.get("tools", ())})


def _through_another_family(grant: Grant, node: Node) -> Explanation:
    """Explain a capability that cannot be called as a tool: an agent, a platform action, a model, a knowledge base, a
    skill, or a tool with `tools.detail` only."""
    capability = node.capability
    if capability.kind in ("model", "knowledge"):
        return explain(grant, NOTHING_REVOKED, min(node.operations), capability.id.partition(":")[2])
    for action, thing in (
        ("agents.call", capability.id.partition(":")[2]),
        ("platform.request", capability.name),
        ("tools.detail", capability.id),
    ):
        if action in node.operations:
            return explain(grant, NOTHING_REVOKED, CALL if action == "tools.detail" else action, thing)
    name = capability.id.partition(":")[2]
    reasons = tuple(_granted_by(grant.access.rights.resources["skills"][name], name))
    return Explanation(action="skills.use", thing=name, allowed=True, code=None, reasons=reasons)


def _not_offered(offer: Offer, capability_id: str) -> tuple[Reason, ...]:
    if capability_id in offer.capabilities:
        return ()
    why = why_absent(offer.absent, capability_id)
    if why is None:
        return (Reason("workspace.lacks", {"thing": capability_id}),)
    return (_absent(capability_id, why),)


def _absent(thing: str, problem: Why) -> Reason:
    return Reason("workspace.absent", {"thing": thing, "why": problem.sentence}, problem)

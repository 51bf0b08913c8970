"""Why a capability is in the graph of an agent's runs, or is not: the same reasons as for every call, in the words of
each language, and what the workspace says about what it does not offer. For people: it names ids."""

from bollard.host.capabilities.graph import CALL, CapabilityGraph, Node
from bollard.host.capabilities.registry import why_absent
from bollard.host.grants.explain import Explanation, Reason, explain
from bollard.host.grants.grant import Grant
from bollard.host.grants.offer import Offer
from bollard.host.grants.revocation import NOTHING_REVOKED

__all__ = ["concerned", "explain_capability"]


def concerned(grant: Grant, graph: CapabilityGraph) -> list[str]:
    """Everything that is in the graph or was asked for, by id."""
    return sorted({*(node.capability.id for node in graph.nodes), *graph.missing, *_asked(grant)})


def explain_capability(grant: Grant, graph: CapabilityGraph, offer: Offer, id_or_name: str) -> Explanation:
    """Of one capability, by its id or its short name; also of one that nobody ever heard of."""
    node = graph.node(id_or_name)
    if node is not None and CALL not in node.operations:
        return _through_another_family(grant, node)
    found = explain(grant, NOTHING_REVOKED, CALL, id_or_name)
    if (
        found.allowed
        or found.thing in _asked(grant)
        or any(each.key != "configuration.lacks" for each in found.reasons)
    ):
        return found
    return Explanation(
        action=CALL,
        thing=found.thing,
        allowed=False,
        code=found.code,
        reasons=(*found.reasons, *_not_offered(offer, id_or_name)),
    )


def _asked(grant: Grant) -> frozenset[str]:
    rights = grant.access.rights
    return frozenset({*rights.resources.get("tools", ()), *rights.withheld_resources.get("tools", ())})


def _through_another_family(grant: Grant, node: Node) -> Explanation:
    """A tool that may only be looked at, an agent, an action of a platform, a model, a knowledge base, a skill."""
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
    held = grant.access.rights.resources["skills"][name]
    reasons = [Reason("configuration.selects", {"field": field, "thing": name}) for field in held.fields]
    reasons += [Reason("policy.adds", {"thing": name})] if held.added else []
    reasons.append(Reason("workspace.offers", {"thing": name}))
    return Explanation(action="skills.use", thing=name, allowed=True, code=None, reasons=tuple(reasons))


def _not_offered(offer: Offer, capability_id: str) -> tuple[Reason, ...]:
    if capability_id in offer.capabilities:
        return ()
    why = why_absent(offer.absent, capability_id)
    if why is None:
        return (Reason("workspace.lacks", {"thing": capability_id}),)
    return (Reason("workspace.absent", {"thing": capability_id, "why": why}),)

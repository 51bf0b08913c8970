"""The static half of a grant: what an agent may do in its workspace, whatever the event. Deny by default.

Compiled from the agent and the workspace's offer, and cached until one of them changes. Pure: it looks nothing up.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from bollard.host.agents.agent import Agent
from bollard.host.agents.policies import OPERATIONS
from bollard.host.capabilities.graph import short_names
from bollard.host.capabilities.sources import why_absent
from bollard.host.grants.offer import KINDS, NAMED, Kind, Offer, about, documents_of, operations_that_fit
from bollard.host.limits import GRAPH_BYTES
from bollard.protocol import NOTHING_SELECTED, JsonObject, JsonValue, StateScope
from bollard.trust import canonical_json, sha256_of

# What an agent asks for by name: the selector fields of its configuration, and what its policy adds.
#
# A configuration holds no value of a field that its form hides, so nothing hidden asks for anything.


_KIND_OF: Final[dict[str, Kind]] = {
    "llm-model-selector": "models",
    "model-fallback-selector": "models",
    "rerank-model-selector": "models",
    "embedding-model-selector": "models",
    "knowledge-base-multi-selector": "knowledge_bases",
    "tool-multi-selector": "tools",
    "file": "files",
    "array[file]": "files",
}
"""The selector types by what they select. `outpost-selector` selects a machine, which is no resource of a grant."""


class ResourceRequest(msgspec.Struct, frozen=True):
    """Who asks for one thing: fields of the configuration, the policy, or both."""

    fields: tuple[str, ...] = ()
    added: bool = False


def asked_for(agent: Agent) -> dict[Kind, dict[str, ResourceRequest]]:
    """By kind and id, whether or not it exists."""
    asked: dict[Kind, dict[str, ResourceRequest]] = {kind: {} for kind in KINDS}
    for item in agent.form:
        kind = _KIND_OF.get(item.type)
        if kind is None:
            continue
        for name in dict.fromkeys(_chosen(agent.config.get(item.name))):
            before = asked[kind].get(name, ResourceRequest())
            asked[kind][name] = ResourceRequest((*before.fields, item.name))
    for kind, rule in agent.policy.access.resources.items():
        for name in rule.add:
            asked[kind][name] = ResourceRequest(asked[kind].get(name, ResourceRequest()).fields, added=True)
    return asked


def _chosen(value: JsonValue) -> Iterator[str]:
    """The ids in a selector's value. A value of any other shape selects nothing."""
    if isinstance(value, str):
        if value not in NOTHING_SELECTED:
            yield value
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, str):
                yield from _chosen(item)
    elif isinstance(value, dict):
        yield from _chosen(value.get("primary"))
        fallbacks = value.get("fallbacks")
        if isinstance(fallbacks, list):
            yield from _chosen(fallbacks)


ACCESS_CACHE_ENTRIES: Final = 1024
"""Compiled accesses that are kept: one for each agent in use."""

Withheld = Literal["manifest", "policy", "workspace", "unfit", "parent", "depth"]
"""Why something was not granted. For an operation: the manifest or the policy does not name it. For a resource: the
policy cuts it off, the workspace does not offer it, no granted operation fits it, or the manifest lacks the capability
for it. For a child run: its parent does not hold it, or no deeper child is allowed."""


class GrantedResource(msgspec.Struct, frozen=True, kw_only=True):
    """One granted resource."""

    about: Mapping[str, str | int | bool]
    """As the workspace offers it."""
    operations: frozenset[str]
    fields: tuple[str, ...] = ()
    """Fields of the configuration that select it."""
    added: bool = False
    """Whether the policy adds it."""
    name: str | None = None
    """The short name of a tool, as models see it; its id otherwise."""


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """What is granted, and why the rest that was asked for is not. This is what the digest covers."""

    agent_id: str
    runner_id: str
    plugin: str
    revision: int
    operations: Mapping[str, frozenset[str]]
    """By family; a family that is absent is not granted."""
    resources: Mapping[str, Mapping[str, GrantedResource]]
    """By kind and id."""
    conversations: frozenset[str]
    """Other conversations whose whole history may be read."""
    state_scopes: frozenset[StateScope]
    steering: bool
    withheld_operations: Mapping[str, Withheld]
    """`family.operation`, and `steering.pull` and `state.<scope>`, which no manifest names."""
    withheld_resources: Mapping[str, Mapping[str, Withheld]]
    absent: Mapping[str, str] = {}
    """Of tools that were asked for and that the workspace does not offer now: what their source says about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Rights with their canonical JSON, its digest, and what the runner sees of them. `seal` makes one."""

    rights: Rights
    json: bytes = field(repr=False)
    sha256: str
    resources: JsonObject = field(repr=False)
    """As `ctx.resources`. Shared by every run of the agent: nobody changes it."""
    tool_ids: Mapping[str, str] = field(repr=False)
    """The tools by their short names: a call may use either."""


def seal(rights: Rights) -> Access:
    """The same rights always get the same bytes."""
    text = canonical_json(msgspec.to_builtins(rights, order="deterministic"))
    return Access(
        rights=rights,
        json=text,
        sha256=sha256_of(text),
        resources=_resources_on_the_wire(rights),
        tool_ids=MappingProxyType(
            {held.name: name for name, held in rights.resources.get("tools", {}).items() if held.name is not None}
        ),
    )


def compile_access(agent: Agent, offer: Offer) -> Access:
    """Manifest ∩ policy (+ what the configuration selects) ∩ what the workspace offers."""
    policy = agent.policy
    operations, withheld_operations = _operations(agent)
    asked = asked_for(agent)
    asked["platform"] = {
        name: ResourceRequest() for name in offer.things["platform"]
    }  # the family alone decides on these
    resources: dict[str, dict[str, GrantedResource]] = {}
    withheld_resources: dict[str, dict[str, Withheld]] = {}
    too_much: frozenset[str] = frozenset()
    for kind in KINDS:
        held: dict[str, GrantedResource] = {}
        withheld: dict[str, Withheld] = {}
        for name in sorted(asked[kind]):
            found = _decide(agent, offer, kind, name, asked[kind][name], operations.get(kind, frozenset()))
            if isinstance(found, GrantedResource):
                held[name] = found
            else:
                withheld[name] = found
        if kind == "files":
            _add_documents(agent, resources.get("knowledge_bases", {}), operations, held, withheld)
        if kind == "tools":
            too_much = _too_much(held, offer)
            withheld |= dict.fromkeys(too_much, "unfit")
            held = _named({name: each for name, each in held.items() if name not in too_much}, offer)
        resources |= {kind: held} if held else {}
        withheld_resources |= {kind: withheld} if withheld else {}
    steers = policy.concurrency.mode == "steer"
    steering = "steering" in agent.capabilities and steers
    if not steering:
        withheld_operations["steering.pull"] = "policy" if "steering" in agent.capabilities else "manifest"
    return seal(
        Rights(
            agent_id=agent.agent_id,
            runner_id=agent.runner_id,
            plugin=agent.plugin,
            revision=agent.revision,
            operations=operations,
            resources=resources,
            conversations=frozenset(policy.access.conversations),
            state_scopes=frozenset(policy.state.scopes if policy.state.enabled else ()),
            steering=steering,
            withheld_operations=withheld_operations,
            withheld_resources=withheld_resources,
            absent=_absent(offer, withheld_resources.get("tools", {}), too_much),
        )
    )


def _named(held: Mapping[str, GrantedResource], offer: Offer) -> dict[str, GrantedResource]:
    """With their short names. A child run, which has fewer of them, keeps those that its agent would have."""
    names = short_names(offer.capabilities[each] for each in held if each in offer.capabilities)
    return {each: msgspec.structs.replace(found, name=names.get(each)) for each, found in held.items()}


def _too_much(held: Mapping[str, GrantedResource], offer: Offer) -> frozenset[str]:
    """Tools beyond what the definitions of a run may come to, by id: a graph goes onto the disk with its run."""
    left, found = GRAPH_BYTES, set[str]()
    for name in held:
        left -= len(offer.capabilities[name].json) if name in offer.capabilities else 0
        if left < 0:
            found.add(name)
    return frozenset(found)


def _absent(offer: Offer, withheld: Mapping[str, Withheld], too_much: frozenset[str]) -> dict[str, str]:
    said = {name: why_absent(offer.absent, name) for name, why in withheld.items() if why == "workspace"}
    found = {name: why for name, why in said.items() if why is not None}
    much = f"the definitions of the agent's tools are larger than {GRAPH_BYTES} bytes; give it fewer of them."
    return found | dict.fromkeys(sorted(too_much), much)


def _operations(agent: Agent) -> tuple[dict[str, frozenset[str]], dict[str, Withheld]]:
    """By family what both the manifest and the policy name; and of what only one of them names, who does not."""
    granted: dict[str, frozenset[str]] = {}
    withheld: dict[str, Withheld] = {}
    for family, names in OPERATIONS.items():
        allowed = agent.policy.access.permissions.get(family, ())
        both = frozenset(name for name in names if name in allowed and f"{family}.{name}" in agent.permissions)
        if both:
            granted[family] = both
        for name in names:
            if name not in both and f"{family}.{name}" in agent.permissions:
                withheld[f"{family}.{name}"] = "policy"
            elif name not in both and name in allowed:
                withheld[f"{family}.{name}"] = "manifest"
    return granted, withheld


ABLE_TO: Final[Mapping[str, str]] = {"tool:builtin/register_skill": "skill_authoring"}
"""Tools that only runners get whose manifest says that they are able to do this."""


def _decide(
    agent: Agent, offer: Offer, kind: Kind, name: str, asked: ResourceRequest, granted: frozenset[str]
) -> GrantedResource | Withheld:
    thing = offer.things[kind].get(name)
    if thing is None:
        return "workspace"
    if kind == "tools" and name in ABLE_TO and ABLE_TO[name] not in agent.capabilities:
        return "manifest"
    rule = agent.policy.access.resources.get(kind) if kind != "platform" else None
    if rule is not None and rule.only is not None and name not in rule.only:
        return "policy"
    operations = granted.intersection(operations_that_fit(thing))
    if not operations and kind != "skills":  # no operation reaches a skill: its name is all there is to grant
        return "unfit"
    return GrantedResource(about=about(thing), operations=operations, fields=asked.fields, added=asked.added)


def _add_documents(
    agent: Agent,
    bases: Mapping[str, GrantedResource],
    operations: Mapping[str, frozenset[str]],
    held: dict[str, GrantedResource],
    withheld: dict[str, Withheld],
) -> None:
    """Who may ask a knowledge base for passages may read its documents whole, where files of this source are granted.
    Nothing selects them but their base."""
    source = operations.get("files", frozenset[str]()) & {"knowledge"}
    rule = agent.policy.access.resources.get("files")
    for kb_id, base in bases.items():
        if not source or "retrieve" not in base.operations:
            continue
        name, called = documents_of(kb_id), base.about.get("kb_name", kb_id)
        if rule is not None and rule.only is not None and name not in rule.only:
            withheld[name] = "policy"
            continue
        known = {"source": "knowledge", "file_name": called}
        held[name] = GrantedResource(about=known, operations=source, fields=base.fields, added=base.added)


def _resources_on_the_wire(rights: Rights) -> JsonObject:
    """Sorted, so that equal rights look the same to a runner and its prompt prefix stays stable."""
    seen: JsonObject = {}
    for kind, named in NAMED.items():
        held = rights.resources.get(kind, {})
        if kind == "platform":
            seen["platform_capabilities"] = dict.fromkeys(sorted(held), True)
            continue
        entries: list[JsonValue] = []
        for name in sorted(held):
            entry: JsonObject = {named: held[name].name or name, **held[name].about}
            if kind not in ("agents", "skills"):
                entry["operations"] = [each for each in OPERATIONS[kind] if each in held[name].operations]
            entries.append(entry)
        seen[kind] = entries
    areas = rights.operations.get("storage", frozenset[str]())
    seen["storage"] = {"plugin_storage": "plugin" in areas, "workspace_storage": "workspace" in areas}
    return seen


class AccessCache:
    """Compiled accesses, so that a run costs only what differs from run to run.

    An entry serves only an agent equal to the one it was compiled from: neither a plugin that comes back with another
    manifest nor a policy that was saved again can get an old answer.
    """

    def __init__(self, entries: int = ACCESS_CACHE_ENTRIES) -> None:
        self._entries = entries
        self._kept: OrderedDict[tuple[str, str, str], tuple[Agent, Access]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, agent: Agent, offer: Offer) -> Access:
        """The access of this agent with this offer, compiled when it is not there."""
        key = (agent.workspace, agent.agent_id, offer.sha256)
        kept = self._kept.get(key)
        if kept is not None and (kept[0] is agent or kept[0] == agent):
            self._kept.move_to_end(key)
            return kept[1]
        access = compile_access(agent, offer)
        self._kept[key] = (agent, access)
        self._kept.move_to_end(key)
        while len(self._kept) > self._entries:
            self._kept.popitem(last=False)
        return access

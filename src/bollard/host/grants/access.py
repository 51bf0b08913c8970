"""The access of an agent in its workspace: the half of a grant that does not depend on the event. Deny by default.

Compiled from the agent and the workspace's offer, and cached until one of them changes. Pure.
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
from bollard.host.reason import Why, why
from bollard.protocol import NOTHING_SELECTED, JsonObject, JsonValue, StateScope
from bollard.trust import canonical_json, sha256_of

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
"""The kind of resource that each selector type selects. `outpost-selector` selects a machine, which is not granted."""


class ResourceRequest(msgspec.Struct, frozen=True):
    """Where a resource is requested: fields of the configuration, the policy, or both."""

    fields: tuple[str, ...] = ()
    added: bool = False


def requested_resources(agent: Agent) -> dict[Kind, dict[str, ResourceRequest]]:
    """The resources that the configuration selects and the policy adds, by kind and id, existing or not. A
    configuration has no values of hidden fields, so those request nothing."""
    requests: dict[Kind, dict[str, ResourceRequest]] = {kind: {} for kind in KINDS}
    for item in agent.form:
        kind = _KIND_OF.get(item.type)
        if kind is None:
            continue
        for name in dict.fromkeys(_selected(agent.config.get(item.name))):
            before = requests[kind].get(name, ResourceRequest())
            requests[kind][name] = ResourceRequest((*before.fields, item.name))
    for kind, rule in agent.policy.access.resources.items():
        for name in rule.add if kind != "platform" else ():  # all that is offered is requested
            requests[kind][name] = ResourceRequest(requests[kind].get(name, ResourceRequest()).fields, added=True)
    return requests


def _selected(value: JsonValue) -> Iterator[str]:
    """The ids in a selector's value. A value of any other shape selects nothing."""
    if isinstance(value, str):
        if value not in NOTHING_SELECTED:
            yield value
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, str):
                yield from _selected(item)
    elif isinstance(value, dict):
        yield from _selected(value.get("primary"))
        fallbacks = value.get("fallbacks")
        if isinstance(fallbacks, list):
            yield from _selected(fallbacks)


ACCESS_CACHE_ENTRIES: Final = 1024
"""Size of the cache: one entry for each agent in use."""

Withheld = Literal["manifest", "policy", "workspace", "unfit", "parent", "depth"]
"""Why something was not granted. For an operation: the manifest or the policy does not name it. For a resource: the
policy excludes it, the workspace does not offer it, no granted operation applies to it, or the manifest lacks the
capability for it. For a child run: its parent does not have it, or no deeper child is allowed."""


class GrantedResource(msgspec.Struct, frozen=True, kw_only=True):
    """One granted resource."""

    about: Mapping[str, str | int | bool]
    """The facts from the workspace's offer."""
    operations: frozenset[str]
    fields: tuple[str, ...] = ()
    """The fields of the configuration that select it."""
    added: bool = False
    """Whether the policy adds it."""
    name: str | None = None
    """The short name of a tool for models."""


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """The granted operations and resources, and why requested ones are withheld. The digest covers all of it."""

    agent_id: str
    runner_id: str
    plugin: str
    revision: int
    operations: Mapping[str, frozenset[str]]
    """By family. An absent family is not granted."""
    resources: Mapping[str, Mapping[str, GrantedResource]]
    """By kind and id."""
    conversations: frozenset[str]
    """Other conversations whose whole history may be read."""
    state_scopes: frozenset[StateScope]
    steering: bool
    withheld_operations: Mapping[str, Withheld]
    """`family.operation`, and `steering.pull` and `state.<scope>`, which no manifest names."""
    withheld_resources: Mapping[str, Mapping[str, Withheld]]
    absent: Mapping[str, Why | str] = {}
    """By tool that the workspace does not offer now, the source's reason. Earlier grants hold its sentence alone."""

    def why_absent(self, tool: str) -> Why | None:
        """The source's reason for a tool that the workspace did not offer."""
        reason = self.absent.get(tool)
        return Why(reason) if isinstance(reason, str) else reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Rights with their canonical JSON, its digest, and the runner's view. Made by `seal`."""

    rights: Rights
    json: bytes = field(repr=False)
    sha256: str
    resources: JsonObject = field(repr=False)
    """`ctx.resources`. Shared by every run of the agent, never changed."""
    tool_ids: Mapping[str, str] = field(repr=False)
    """The ids of tools by their short names. A call may use either."""


def seal(rights: Rights) -> Access:
    """Encode and hash rights. Equal rights have equal bytes."""
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
    """The intersection of manifest, policy (with the configuration's selection) and the workspace's offer."""
    policy = agent.policy
    operations, withheld_operations = _operations(agent)
    requests = requested_resources(agent)
    # Platform actions are not selected: the operations of the family and the limit of the policy decide.
    requests["platform"] = {name: ResourceRequest() for name in offer.things["platform"]}
    resources: dict[str, dict[str, GrantedResource]] = {}
    withheld_resources: dict[str, dict[str, Withheld]] = {}
    oversize: frozenset[str] = frozenset()
    for kind in KINDS:
        granted: dict[str, GrantedResource] = {}
        withheld: dict[str, Withheld] = {}
        for name in sorted(requests[kind]):
            decision = _decide(agent, offer, kind, name, requests[kind][name], operations.get(kind, frozenset()))
            if isinstance(decision, GrantedResource):
                granted[name] = decision
            else:
                withheld[name] = decision
        if kind == "files":
            _add_documents(agent, resources.get("knowledge_bases", {}), operations, granted, withheld)
        if kind == "tools":
            oversize = _beyond_graph_limit(granted, offer)
            withheld |= dict.fromkeys(oversize, "unfit")
            granted = _with_names({name: each for name, each in granted.items() if name not in oversize}, offer)
        resources |= {kind: granted} if granted else {}
        withheld_resources |= {kind: withheld} if withheld else {}
    steering = "steering" in agent.capabilities and policy.concurrency.mode == "steer"
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
            absent=_absent(offer, withheld_resources.get("tools", {}), oversize),
        )
    )


def _with_names(tools: Mapping[str, GrantedResource], offer: Offer) -> dict[str, GrantedResource]:
    """Add the short names. A child run with fewer tools keeps the names that its agent would have."""
    names = short_names(offer.capabilities[each] for each in tools if each in offer.capabilities)
    return {each: msgspec.structs.replace(tool, name=names.get(each)) for each, tool in tools.items()}


def _beyond_graph_limit(tools: Mapping[str, GrantedResource], offer: Offer) -> frozenset[str]:
    """The tools whose definitions exceed the limit of a run's graph, which is stored with the run."""
    left, beyond = GRAPH_BYTES, set[str]()
    for name in tools:
        left -= len(offer.capabilities[name].json) if name in offer.capabilities else 0
        if left < 0:
            beyond.add(name)
    return frozenset(beyond)


def _absent(offer: Offer, withheld: Mapping[str, Withheld], oversize: frozenset[str]) -> dict[str, Why]:
    reasons = {name: why_absent(offer.absent, name) for name, layer in withheld.items() if layer == "workspace"}
    known = {name: reason for name, reason in reasons.items() if reason is not None}
    sentence = f"the definitions of the agent's tools exceed {GRAPH_BYTES} bytes; give it fewer tools"
    too_large = why(sentence, "capability.oversize", limit=GRAPH_BYTES)
    return known | dict.fromkeys(sorted(oversize), too_large)


def _operations(agent: Agent) -> tuple[dict[str, frozenset[str]], dict[str, Withheld]]:
    """The operations that manifest and policy both name, by family, and for the others which of them does not."""
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
"""By tool, the capability that a runner's manifest must declare."""


def _decide(
    agent: Agent, offer: Offer, kind: Kind, name: str, request: ResourceRequest, granted: frozenset[str]
) -> GrantedResource | Withheld:
    thing = offer.things[kind].get(name)
    if thing is None:
        return "workspace"
    if kind == "tools" and name in ABLE_TO and ABLE_TO[name] not in agent.capabilities:
        return "manifest"
    rule = agent.policy.access.resources.get(kind)
    if rule is not None and rule.only is not None and name not in rule.only:
        return "policy"
    operations = granted.intersection(operations_that_fit(thing))
    if not operations and kind != "skills":  # skills have no operations: only their names are granted
        return "unfit"
    return GrantedResource(about=about(thing), operations=operations, fields=request.fields, added=request.added)


def _add_documents(
    agent: Agent,
    bases: Mapping[str, GrantedResource],
    operations: Mapping[str, frozenset[str]],
    granted: dict[str, GrantedResource],
    withheld: dict[str, Withheld],
) -> None:
    """Grant the documents of each knowledge base that may be searched, if files of this source are granted."""
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
        granted[name] = GrantedResource(about=known, operations=source, fields=base.fields, added=base.added)


def _resources_on_the_wire(rights: Rights) -> JsonObject:
    """`ctx.resources`, sorted, so that a runner's prompt prefix stays stable."""
    body: JsonObject = {}
    for kind, id_field in NAMED.items():
        granted = rights.resources.get(kind, {})
        if kind == "platform":
            body["platform_capabilities"] = dict.fromkeys(sorted(granted), True)
            continue
        entries: list[JsonValue] = []
        for name in sorted(granted):
            entry: JsonObject = {id_field: granted[name].name or name, **granted[name].about}
            if kind not in ("agents", "skills"):
                entry["operations"] = [each for each in OPERATIONS[kind] if each in granted[name].operations]
            entries.append(entry)
        body[kind] = entries
    areas = rights.operations.get("storage", frozenset[str]())
    body["storage"] = {"plugin_storage": "plugin" in areas, "workspace_storage": "workspace" in areas}
    return body


class AccessCache:
    """Compiled accesses by agent and offer.

    An entry serves only an agent equal to the one it was compiled from, so a changed manifest or policy never gets an
    old access.
    """

    def __init__(self, entries: int = ACCESS_CACHE_ENTRIES) -> None:
        self._entries = entries
        self._cached: OrderedDict[tuple[str, str, str], tuple[Agent, Access]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._cached)

    def get(self, agent: Agent, offer: Offer) -> Access:
        """The access of this agent with this offer, compiled if it is not cached."""
        key = (agent.workspace, agent.agent_id, offer.sha256)
        cached = self._cached.get(key)
        if cached is not None and (cached[0] is agent or cached[0] == agent):
            self._cached.move_to_end(key)
            return cached[1]
        access = compile_access(agent, offer)
        self._cached[key] = (agent, access)
        self._cached.move_to_end(key)
        while len(self._cached) > self._entries:
            self._cached.popitem(last=False)
        return access

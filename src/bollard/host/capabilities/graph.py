"""What one run can do, frozen: the planner's list and the executor's lookup are one object.

Pure. What may be in it was decided by whoever builds it; here it is put in order, named and given a digest.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from bollard.host.capabilities.capability import (
    Approval,
    Capability,
    CapabilityLimits,
    Effects,
    Flow,
    Kind,
    Risk,
)
from bollard.host.errors import CapabilityDenied, InvalidRequest, NotFound
from bollard.protocol import JsonObject
from bollard.trust import NotCanonical, canonical_json, sha256_of

CALL: Final = "tools.call"
DETAIL: Final = "tools.detail"

Why = Literal["granted", "manifest", "policy", "workspace", "unfit", "parent", "depth", "not_asked"]
"""Why something is there, or who kept it out: the runner's manifest, the agent's policy, the workspace that does not
offer it now, its own kind, the calling run, the depth of calls; or nobody asked for it."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One capability in a graph."""

    capability: Capability
    name: str
    """As models see it, or its id where no model does."""
    operations: frozenset[str]
    """What may be done with it, by the names of the run API: `tools.call`, `agents.call`, `platform.request` …"""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a capability is in a graph, and who decided."""

    capability_id: str
    present: bool
    why: Why
    name: str | None = None
    said: str | None = None
    """What its source says about its absence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityGraph:
    """Built by `build_graph`, or read back by `from_json`. The digest covers what is there, not why the rest is not."""

    nodes: tuple[Node, ...]
    """By id."""
    missing: Mapping[str, tuple[Why, str | None]] = field(compare=False, repr=False)
    """What was asked for and is not there: who kept it out, and what its source says."""
    json: bytes = field(repr=False)
    sha256: str
    _nodes: Mapping[str, Node] = field(compare=False, repr=False)
    """By id and by name."""
    _planned: tuple[JsonObject, ...] = field(compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.nodes)

    def node(self, id_or_name: str) -> Node | None:
        return self._nodes.get(id_or_name)

    def get(self, id_or_name: str) -> Capability | None:
        node = self._nodes.get(id_or_name)
        return None if node is None else node.capability

    def require(self, id_or_name: str, operation: str = CALL) -> Capability:
        """The capability, if this may be done with it. What is absent looks the same whyever it is."""
        node = self._nodes.get(id_or_name)
        if node is None:
            raise NotFound("this run has no such tool", hint="call one of the tools in the run's resources")
        if operation not in node.operations:
            raise CapabilityDenied(
                f"{node.name} is granted to this run, but not to {operation.partition('.')[2]} here",
                hint=f"let the agent's policy and the runner's manifest name {operation}",
            )
        return node.capability

    def name_of(self, capability_id: str) -> str | None:
        node = self._nodes.get(capability_id)
        return None if node is None else node.name

    def for_planner(self) -> list[JsonObject]:
        """What a model is told of what it can call, always in the same order. The entries are shared: read them."""
        return [*self._planned]

    def by_kind(self, kind: Kind) -> tuple[Capability, ...]:
        return tuple(node.capability for node in self.nodes if node.capability.kind == kind)

    def explain(self, id_or_name: str) -> Explanation:
        """Whether it is there and who decided. For people: it says more than a runner may know."""
        node = self._nodes.get(id_or_name)
        if node is not None:
            return Explanation(capability_id=node.capability.id, present=True, why="granted", name=node.name)
        why, said = self.missing.get(id_or_name, ("not_asked", None))
        return Explanation(capability_id=id_or_name, present=False, why=why, said=said)

    @staticmethod
    def from_json(text: bytes, sha256: str) -> "CapabilityGraph":
        """A graph read back; bytes that are not those of the digest are no graph. Why the rest was not there is not
        kept with it: the grant says it."""
        if sha256_of(text) != sha256:
            raise InvalidRequest(
                "these bytes are not the graph that was granted",
                hint="restore the database from a backup",
                field="graph",
            )
        try:
            body = msgspec.json.decode(text, type=_Body)
            nodes = [
                Node(capability=_read(each.capability), name=each.name, operations=each.operations)
                for each in body.capabilities
            ]
            graph = build_graph(nodes)
        except (msgspec.MsgspecError, NotCanonical) as error:
            raise InvalidRequest(
                f"these bytes are no graph of this version: {error}",
                hint="start the version that wrote them",
                field="graph",
            ) from error
        if graph.sha256 != sha256:
            raise InvalidRequest(
                "this version reads the graph as another one", hint="start the version that wrote it", field="graph"
            )
        return graph


def build_graph(
    nodes: Iterable[Node], missing: Mapping[str, tuple[Why, str | None]] = MappingProxyType({})
) -> CapabilityGraph:
    """The same nodes always make the same bytes."""
    ordered = tuple(sorted(nodes, key=lambda node: node.capability.id))
    text = b'{"capabilities":[%b],"format":1}' % b",".join(map(_node_json, ordered))
    lookup = {node.name: node for node in ordered} | {node.capability.id: node for node in ordered}
    return CapabilityGraph(
        nodes=ordered,
        missing=MappingProxyType(dict(missing)),
        json=text,
        sha256=sha256_of(text),
        _nodes=MappingProxyType(lookup),
        _planned=tuple(_planned(node) for node in ordered if CALL in node.operations),
    )


def _node_json(node: Node) -> bytes:
    return b'{"capability":%b,"name":%b,"operations":%b}' % (
        node.capability.json,
        canonical_json(node.name),
        _operations_json(node.operations),
    )


@lru_cache(maxsize=64)
def _operations_json(operations: frozenset[str]) -> bytes:
    return canonical_json([*sorted(operations)])


def _planned(node: Node) -> JsonObject:
    capability = node.capability
    return {"name": node.name, "description": capability.description, "input_schema": capability.input_schema}


class _Capability(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    kind: Kind
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    risk: Risk
    flow: int
    effects: Effects
    approval: Approval
    limits: CapabilityLimits
    source: str
    version: str
    about: dict[str, str | int | bool] = {}


class _Node(msgspec.Struct, frozen=True, kw_only=True):
    capability: _Capability
    name: str
    operations: frozenset[str]


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    """A graph as its JSON has it."""

    capabilities: list[_Node]


def _read(body: _Capability) -> Capability:
    said = {name: getattr(body, name) for name in body.__struct_fields__ if name != "flow"}
    return Capability(**said, flow=Flow.of_bits(body.flow))


EMPTY_GRAPH: Final = build_graph(())
"""What a run has that was granted nothing, or whose graph nobody knows."""


# Short names for models. Two that would be equal both get their source as a prefix: none wins silently.
#
# The same capabilities get the same names, in whatever order they come.


NAME_CHARACTERS: Final = 64
"""What every model's interface takes."""
_DIGEST_CHARACTERS: Final = 24
"""Enough that nobody finds two ids with one ending, also who chooses the ids."""
_LAST: Final = 2
"""The form of a name that cannot be equal to another."""
_UNSAFE: Final = re.compile(r"[^a-zA-Z0-9_-]")


def short_names(capabilities: Iterable[Capability]) -> dict[str, str]:
    """By id. Names that differ only in case count as equal: some models cannot tell them apart."""
    known = {capability.id: capability for capability in capabilities}
    level = dict.fromkeys(known, 0)
    names = {found: _form(capability, 0) for found, capability in known.items()}
    while True:
        many = {name for name, count in Counter(name.casefold() for name in names.values()).items() if count > 1}
        stuck = [found for found, name in names.items() if name.casefold() in many and level[found] < _LAST]
        if not stuck:
            return names
        for found in stuck:
            level[found] += 1
            names[found] = _form(known[found], level[found])


def _form(capability: Capability, level: int) -> str:
    """The plain name; with its source before it; one that nobody else has."""
    plain = _safe(capability.name)
    if level == 0 and len(plain) <= NAME_CHARACTERS:
        return plain
    long = f"{_safe(capability.source.partition(':')[2] or capability.source)}__{plain}"
    if level == 1 and len(long) <= NAME_CHARACTERS:
        return long
    # What is cut off no longer says which one it is.
    digest = sha256_of(capability.id.encode("utf-8", "surrogatepass"))[:_DIGEST_CHARACTERS]
    return f"{long[: NAME_CHARACTERS - _DIGEST_CHARACTERS - 1]}_{digest}"


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name) or "_"

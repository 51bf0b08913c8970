"""The capability graph of one run: the planner's list and the executor's lookup in one frozen object.

Pure. The caller decides what is in it; this module orders, names and hashes it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from bollard.host.capabilities.capability import Approval, Capability, CapabilityLimits, Effects, Flow, Kind, Risk
from bollard.host.errors import CapabilityDenied, InvalidRequest, NotFound, caused_by
from bollard.protocol import JsonObject
from bollard.trust import NotCanonical, canonical_json, sha256_of

CALL: Final = "tools.call"
DETAIL: Final = "tools.detail"

Why = Literal["granted", "manifest", "policy", "workspace", "unfit", "parent", "depth", "not_asked"]
"""Why a capability is in a graph, or what excluded it: the runner's manifest, the agent's policy, the workspace that
does not offer it now, its kind, the parent run, or the depth of calls. `not_asked`: it was not requested."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One capability in a graph."""

    capability: Capability
    name: str
    """The name for models, or its id if models do not see it."""
    operations: frozenset[str]
    """The allowed operations of the run API: `tools.call`, `agents.call`, `platform.request` …"""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a capability is in a graph, and why."""

    capability_id: str
    present: bool
    why: Why
    name: str | None = None
    detail: str | None = None
    """The source's reason for its absence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityGraph:
    """Made by `build_graph` or `from_json`. The digest covers the nodes, not the missing capabilities."""

    nodes: tuple[Node, ...]
    """By id."""
    missing: Mapping[str, tuple[Why, str | None]] = field(compare=False, repr=False)
    """Requested capabilities that are absent: what excluded them, and the source's reason."""
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
        """The capability, if the operation is allowed. The error for an absent one does not depend on the cause."""
        node = self._nodes.get(id_or_name)
        if node is None:
            raise NotFound(
                "this run has no such tool", reason="no_tool", hint="call one of the tools in the run's resources"
            )
        if operation not in node.operations:
            raise CapabilityDenied(
                f"{node.name} is granted to this run, but not for {operation}",
                reason="operation_not_granted",
                hint=f"name {operation} in the agent's policy and the runner's manifest",
                tool=node.name,
                operation=operation,
            )
        return node.capability

    def name_of(self, capability_id: str) -> str | None:
        node = self._nodes.get(capability_id)
        return None if node is None else node.name

    def for_planner(self) -> list[JsonObject]:
        """The callable capabilities for a model, in a stable order. The entries are shared and must not be changed."""
        return [*self._planned]

    def by_kind(self, kind: Kind) -> tuple[Capability, ...]:
        return tuple(node.capability for node in self.nodes if node.capability.kind == kind)

    def explain(self, id_or_name: str) -> Explanation:
        """Whether a capability is present, and why. For operators: it reveals more than a runner may know."""
        node = self._nodes.get(id_or_name)
        if node is not None:
            return Explanation(capability_id=node.capability.id, present=True, why="granted", name=node.name)
        why, reason = self.missing.get(id_or_name, ("not_asked", None))
        return Explanation(capability_id=id_or_name, present=False, why=why, detail=reason)

    @staticmethod
    def from_json(text: bytes, sha256: str) -> "CapabilityGraph":
        """Decode a stored graph and verify its digest. `missing` is not stored with it: the grant has the reasons."""
        if sha256_of(text) != sha256:
            raise InvalidRequest(
                "the stored graph is not the granted one: its digest differs",
                reason="graph_digest_mismatch",
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
                f"the stored graph cannot be decoded: {error}",
                reason="graph_unreadable",
                hint="start the version of the host that wrote it",
                field="graph",
                **caused_by(error),
            ) from error
        if graph.sha256 != sha256:
            raise InvalidRequest(
                "this version of the host encodes the stored graph differently",
                reason="graph_version_mismatch",
                hint="start the version of the host that wrote it",
                field="graph",
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
    """The JSON of a graph."""

    capabilities: list[_Node]


def _read(body: _Capability) -> Capability:
    fields = {name: getattr(body, name) for name in body.__struct_fields__ if name != "flow"}
    return Capability(**fields, flow=Flow.of_bits(body.flow))


EMPTY_GRAPH: Final = build_graph(())
"""The graph of a run without capabilities, or whose graph is not stored."""


# --- short names ---

NAME_CHARACTERS: Final = 64
"""The length that every model API accepts."""
_DIGEST_CHARACTERS: Final = 24
"""Enough to prevent collisions of chosen ids."""
_LAST: Final = 2
"""The form of a name that is unique."""
_UNSAFE: Final = re.compile(r"[^a-zA-Z0-9_-]")


def short_names(capabilities: Iterable[Capability]) -> dict[str, str]:
    """Names for models, by id, independent of the order. Of capabilities with equal names, each gets its source as a
    prefix. Names that differ only in case count as equal: some models cannot tell them apart."""
    known = {capability.id: capability for capability in capabilities}
    level = dict.fromkeys(known, 0)
    names = {each: _form(capability, 0) for each, capability in known.items()}
    while True:
        many = {name for name, count in Counter(name.casefold() for name in names.values()).items() if count > 1}
        clashing = [each for each, name in names.items() if name.casefold() in many and level[each] < _LAST]
        if not clashing:
            return names
        for each in clashing:
            level[each] += 1
            names[each] = _form(known[each], level[each])


def _form(capability: Capability, level: int) -> str:
    """By level: the plain name, the name with its source, a unique name."""
    plain = _safe(capability.name)
    if level == 0 and len(plain) <= NAME_CHARACTERS:
        return plain
    long = f"{_safe(capability.source.partition(':')[2] or capability.source)}__{plain}"
    if level == 1 and len(long) <= NAME_CHARACTERS:
        return long
    digest = sha256_of(capability.id.encode("utf-8", "surrogatepass"))[:_DIGEST_CHARACTERS]
    return f"{long[: NAME_CHARACTERS - _DIGEST_CHARACTERS - 1]}_{digest}"


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name) or "_"

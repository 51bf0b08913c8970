"""The capability graphs of grants. A graph is built once for the same rights and stored with its first run, so that it
can be read by its digest after its sources have changed."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping

from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.graph import EMPTY_GRAPH, CapabilityGraph, Node, Why, build_graph
from bollard.host.grants.access import Access, GrantedResource, Rights
from bollard.host.grants.offer import Offer
from bollard.host.limits import GRAPH_CACHE_ENTRIES
from bollard.host.store.rows import KeptRow, PutKept
from bollard.host.store.store import Store

GRAPH = "graph"
"""The kind of the rows that hold graphs."""
_USE = "skills.use"
_FAMILY = {"models": "models", "knowledge_bases": "knowledge"}
"""The families of the run API by kind of resource."""


def graph_of(rights: Rights, capabilities: Mapping[str, Capability]) -> CapabilityGraph:
    """Build the graph of the granted capabilities, from a workspace's offer or from the graph of the parent run."""
    nodes: dict[str, Node] = {}
    for capability, resource, operations in _granted(rights, capabilities):
        definition = resource.about.get("definition_sha256", capability.definition_sha256)
        if definition != capability.definition_sha256:
            continue  # the definition has changed since the grant
        before = nodes.get(capability.id)
        nodes[capability.id] = Node(
            capability=capability,
            name=resource.name or (capability.id if before is None else before.name),
            operations=operations if before is None else operations | before.operations,
        )
    return build_graph(nodes.values(), _missing(rights))


def _granted(
    rights: Rights, capabilities: Mapping[str, Capability]
) -> Iterator[tuple[Capability, GrantedResource, frozenset[str]]]:
    """The granted capabilities of every family, with their resources and operations."""
    for name, resource in rights.resources.get("tools", {}).items():
        if name in capabilities:
            yield capabilities[name], resource, frozenset(f"tools.{each}" for each in resource.operations)
    for name, resource in rights.resources.get("agents", {}).items():
        if (agent := capabilities.get(f"agent:{name}")) is not None:
            yield agent, resource, frozenset(f"agents.{each}" for each in resource.operations)
    for kind, prefix in (("models", "model"), ("knowledge_bases", "kb")):
        for name, resource in rights.resources.get(kind, {}).items():
            if (capability := capabilities.get(f"{prefix}:{name}")) is not None:
                yield capability, resource, frozenset(f"{_FAMILY[kind]}.{each}" for each in resource.operations)
    for name, resource in rights.resources.get("skills", {}).items():
        if (skill := capabilities.get(f"skill:{name}")) is not None:
            yield skill, resource, frozenset({_USE})
    actions = rights.resources.get("platform", {})
    for capability in capabilities.values() if actions else ():
        if capability.kind == "channel" and capability.name in actions:
            resource = actions[capability.name]
            yield capability, resource, frozenset(f"platform.{each}" for each in resource.operations)


def _missing(rights: Rights) -> dict[str, tuple[Why, str | None]]:
    withheld = rights.withheld_resources.get("tools", {})
    return {
        name: (why, None if (absent := rights.why_absent(name)) is None else absent.sentence)
        for name, why in withheld.items()
    }


class Graphs:
    """A cache of graphs. The creator of a run writes `rows` with it and calls `written` when they are on disk."""

    def __init__(self, entries: int = GRAPH_CACHE_ENTRIES) -> None:
        self._entries = entries
        self._made: OrderedDict[tuple[str, str], CapabilityGraph] = OrderedDict()
        self._on_disk: OrderedDict[tuple[str, str], None] = OrderedDict()

    def of(self, access: Access, offer: Offer) -> CapabilityGraph:
        """The graph of a run with this access."""
        return self._get(access, offer.sha256, offer.capabilities)

    def of_child(self, access: Access, parent: CapabilityGraph) -> CapabilityGraph:
        """The graph of a child run: a subset of its parent's graph."""
        return self._get(access, parent.sha256, {node.capability.id: node.capability for node in parent.nodes})

    def _get(self, access: Access, seen: str, capabilities: Mapping[str, Capability]) -> CapabilityGraph:
        key = (access.sha256, seen)
        graph = self._made.get(key)
        if graph is None:
            graph = (
                graph_of(access.rights, capabilities)
                if capabilities or access.rights.withheld_resources
                else EMPTY_GRAPH
            )
            self._made[key] = graph
        self._made.move_to_end(key)
        while len(self._made) > self._entries:
            self._made.popitem(last=False)
        return graph

    def rows(self, workspace: str, graph: CapabilityGraph, now_ms: int) -> list[PutKept]:
        """The rows to write with the first run of this graph; empty once it is on disk, and for an empty graph."""
        if not graph.nodes or (workspace, graph.sha256) in self._on_disk:
            return []
        row = KeptRow(
            kind=GRAPH, workspace=workspace, id=graph.sha256, body=graph.json, expires_ms=None, updated_ms=now_ms
        )
        return [PutKept(row)]

    def written(self, workspace: str, graph: CapabilityGraph) -> None:
        """Note that the row of a graph is on disk."""
        self._on_disk[workspace, graph.sha256] = None
        while len(self._on_disk) > self._entries:
            self._on_disk.popitem(last=False)


def load_graph(store: Store, workspace: str, sha256: str | None) -> CapabilityGraph | None:
    """Load the graph of a grant; `None` if it is not stored. Raises `InvalidRequest` if its digest differs. Blocks."""
    if sha256 is None or sha256 == EMPTY_GRAPH.sha256:
        return EMPTY_GRAPH
    row = store.kept(GRAPH, workspace, sha256)
    return None if row is None else CapabilityGraph.from_json(row.body, sha256)

"""The graph of a grant: what of a workspace's capabilities its rights hold. Made once for the same rights, and on disk
with the first run that has it, so that it can be read by its digest when the sources are long gone."""

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
"""As the run API calls what is done with them."""


def graph_of(rights: Rights, capabilities: Mapping[str, Capability]) -> CapabilityGraph:
    """What the rights hold of these capabilities: of a workspace's offer, or of the graph of a calling run."""
    found: dict[str, Node] = {}
    for capability, held, operations in _held(rights, capabilities):
        granted = held.about.get("definition_sha256", capability.definition_sha256)
        if granted != capability.definition_sha256:
            continue  # one that changed since is another one
        before = found.get(capability.id)
        found[capability.id] = Node(
            capability=capability,
            name=held.name or (capability.id if before is None else before.name),
            operations=operations if before is None else operations | before.operations,
        )
    return build_graph(found.values(), _missing(rights))


def _held(
    rights: Rights, capabilities: Mapping[str, Capability]
) -> Iterator[tuple[Capability, GrantedResource, frozenset[str]]]:
    """Every capability that is held, through whichever family, and what may be done with it."""
    for name, held in rights.resources.get("tools", {}).items():
        if name in capabilities:
            yield capabilities[name], held, frozenset(f"tools.{each}" for each in held.operations)
    for name, held in rights.resources.get("agents", {}).items():
        if (agent := capabilities.get(f"agent:{name}")) is not None:
            yield agent, held, frozenset(f"agents.{each}" for each in held.operations)
    for kind, prefix in (("models", "model"), ("knowledge_bases", "kb")):
        for name, held in rights.resources.get(kind, {}).items():
            if (thing := capabilities.get(f"{prefix}:{name}")) is not None:
                yield thing, held, frozenset(f"{_FAMILY[kind]}.{each}" for each in held.operations)
    for name, held in rights.resources.get("skills", {}).items():
        if (skill := capabilities.get(f"skill:{name}")) is not None:
            yield skill, held, frozenset({_USE})
    actions = rights.resources.get("platform", {})
    for capability in capabilities.values() if actions else ():
        if capability.kind == "channel" and capability.name in actions:
            held = actions[capability.name]
            yield capability, held, frozenset(f"platform.{each}" for each in held.operations)


def _missing(rights: Rights) -> dict[str, tuple[Why, str | None]]:
    withheld = rights.withheld_resources.get("tools", {})
    return {name: (why, rights.absent.get(name)) for name, why in withheld.items()}


class Graphs:
    """Graphs in use. Not the store: whoever creates a run writes `rows` with it, and says when that is on disk."""

    def __init__(self, entries: int = GRAPH_CACHE_ENTRIES) -> None:
        self._entries = entries
        self._made: OrderedDict[tuple[str, str], CapabilityGraph] = OrderedDict()
        self._on_disk: OrderedDict[tuple[str, str], None] = OrderedDict()

    def of(self, access: Access, offer: Offer) -> CapabilityGraph:
        """What a run of this access sees of an offer."""
        return self._get(access, offer.sha256, offer.capabilities)

    def of_child(self, access: Access, parent: CapabilityGraph) -> CapabilityGraph:
        """What a child run sees: only what is in the graph of the run that called for it, as it is there."""
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
        """What must be written with the first run of this graph; nothing once it is on disk, and for an empty one."""
        if not graph.nodes or (workspace, graph.sha256) in self._on_disk:
            return []
        row = KeptRow(
            kind=GRAPH, workspace=workspace, id=graph.sha256, body=graph.json, expires_ms=None, updated_ms=now_ms
        )
        return [PutKept(row)]

    def written(self, workspace: str, graph: CapabilityGraph) -> None:
        """Its row is on disk."""
        self._on_disk[workspace, graph.sha256] = None
        while len(self._on_disk) > self._entries:
            self._on_disk.popitem(last=False)


def load_graph(store: Store, workspace: str, sha256: str | None) -> CapabilityGraph | None:
    """The graph that a grant quotes; `None` where it is not kept. Raises `InvalidRequest` when it is not what was
    granted. Blocks."""
    if sha256 is None or sha256 == EMPTY_GRAPH.sha256:
        return EMPTY_GRAPH
    row = store.kept(GRAPH, workspace, sha256)
    return None if row is None else CapabilityGraph.from_json(row.body, sha256)

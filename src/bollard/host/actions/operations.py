"""By which operation of the run API a capability is asked for, and what the grant calls it there. Pure."""

from typing import Final

from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.graph import CALL, CapabilityGraph

__all__ = ["asked_as", "operation_of"]

_PLATFORM: Final = "platform.request"
_AGENT: Final = "agents.call"


def operation_of(graph: CapabilityGraph, id_or_name: str) -> str:
    """An action of a platform is requested, an agent may be called as itself; everything else is called as a tool."""
    node = graph.node(id_or_name)
    if node is None:
        return CALL
    if node.capability.kind == "channel":
        return _PLATFORM
    if node.capability.kind == "agent" and CALL not in node.operations:
        return _AGENT
    return CALL


def asked_as(graph: CapabilityGraph, capability: Capability) -> tuple[str, str]:
    """The operation, and the name of the thing in the grant."""
    operation = operation_of(graph, capability.id)
    if operation == _PLATFORM:
        return operation, capability.name
    if operation == _AGENT:
        return operation, capability.id.partition(":")[2]
    return operation, capability.id

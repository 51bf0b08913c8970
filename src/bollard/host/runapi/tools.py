"""`tools.detail`: how the tools of a run are called, read from the graph that its calls are resolved in."""

from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.graph import DETAIL, CapabilityGraph
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runs.live import LiveRun
from bollard.protocol import ToolDetail, ToolDetailList, ToolsDetail, limits

__all__ = ["Tools"]


class Tools:
    """Describes tools to runs. That the grant holds each was checked before."""

    async def detail(self, run: LiveRun, params: ToolsDetail) -> ToolDetailList:
        graph = run.session.graph
        found = [graph.require(name, DETAIL) for name in params.names]
        if sum(len(each.json) for each in found) > limits.RESULT_BYTES:
            raise ApiRefused(
                "payload_too_large",
                f"these definitions are together larger than {limits.RESULT_BYTES} bytes: ask for fewer at once",
            )
        return ToolDetailList(tools=tuple(_detail(graph, each) for each in found))


def _detail(graph: CapabilityGraph, capability: Capability) -> ToolDetail:
    return ToolDetail(
        tool_name=graph.name_of(capability.id) or capability.id,
        description=capability.description,
        input_schema=capability.input_schema,
        output_schema=capability.output_schema,
        risk=capability.risk,
        definition_sha256=capability.definition_sha256,
    )

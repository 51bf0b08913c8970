"""The tools of one plugin: what of them may be used, and what each is as a capability. Pure.

A tool is never taken for less than somebody was shown: where its worker says less risk, or fewer ways for data to flow,
than what was consented to, the consent counts.
"""

from collections.abc import Iterable, Mapping
from typing import Final, get_args

from bollard.host.capabilities.capability import ALL_FLOW, RISKS, Capability, Flow, Risk
from bollard.protocol import FlowBits, JsonObject, ToolDefinition
from bollard.trust import canonical_sha256
from bollard.wire import ToolCatalogue

_UNKNOWN: Final = "unknown"
_NEVER: Final = "never "
_BITS: Final = ("reads_private", "brings_untrusted", "sends_out")


def tool_id(plugin_id: str, name: str) -> str:
    return f"tool:{plugin_id}/{name}"


def claims_of(risk: str | None, flow: FlowBits | None) -> str:
    """What a plugin claims of a tool, in the words that people consent to: `low, never sends_out`. What it does not
    say is no claim, and is taken for the worst."""
    never = [_NEVER + bit for bit in _BITS if flow is not None and not getattr(flow, bit)]
    return ", ".join([risk or _UNKNOWN, *never])


def definition_digests(tools: Iterable[ToolDefinition]) -> dict[str, str]:
    """By name, the digest of everything that a worker says of a tool."""
    return {each.name: canonical_sha256(each.to_wire()) for each in tools}


def usable_tools(
    catalogue: ToolCatalogue, consented: Mapping[str, str] | None, pins: Mapping[str, str] | None
) -> tuple[list[ToolDefinition], dict[str, str], list[str]]:
    """The tools that fit what was consented to; by name, why another one does not; and what is wrong with no name.

    `consented` has the claims by tool, and is `None` where the operator's settings are the consent; `pins` has the
    digests of the definitions that were seen when somebody said yes."""
    digests = definition_digests(catalogue.tools)
    usable: list[ToolDefinition] = []
    refused: dict[str, str] = {}
    for tool in catalogue.tools:
        if consented is not None and tool.name not in consented:
            refused[tool.name] = "it is not in what was consented to"
        elif pins is not None and pins.get(tool.name) != digests[tool.name]:
            refused[tool.name] = "its definition is not the one that was consented to"
        else:
            usable.append(tool)
    there = {tool.name for tool in catalogue.tools}
    for name in consented or ():
        if name not in there:
            refused[name] = "it was consented to and is not offered by the worker"
    return usable, refused, [f"{each.entry}: {each.field}: {each.problem}" for each in catalogue.problems]


def capability_of(tool: ToolDefinition, *, plugin_id: str, version: str, claims: str | None) -> Capability:
    """A tool as what a run can do. `version` pins the plugin's code; `claims` are those that were consented to."""
    risk, flow = _said_risk(tool.risk), _said_flow(tool.flow)
    if claims is not None:
        said, *never = claims.split(", ")
        risk = RISKS[max(RISKS.index(risk), RISKS.index(_said_risk(said)))]
        flow |= Flow(**{bit: _NEVER + bit not in never for bit in _BITS})
    return Capability(
        id=tool_id(plugin_id, tool.name),
        name=tool.name,
        kind="tool",
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        risk=risk,
        flow=flow,
        effects=tool.effects or "at_most_once",
        source=f"plugin:{plugin_id}",
        version=version,
    )


def _said_risk(said: str | None) -> Risk:
    """What nobody said is high."""
    return next((risk for risk in get_args(Risk) if risk == said), "high")


def _said_flow(said: FlowBits | None) -> Flow:
    if said is None:
        return ALL_FLOW
    bits: JsonObject = said.to_wire()
    return Flow(**{bit: bits.get(bit) is not False for bit in _BITS})

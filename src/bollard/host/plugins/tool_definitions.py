"""Selects the usable tools of a plugin and turns them into capabilities. Pure.

The consent is a lower bound: if a worker claims less risk or fewer flow bits than the consent, the consent counts.
"""

from collections.abc import Iterable, Mapping
from typing import Final, get_args

from bollard.host.capabilities.capability import ALL_FLOW, RISKS, Capability, Flow, Risk
from bollard.host.reason import Why, why
from bollard.protocol import FlowBits, JsonObject, ToolDefinition
from bollard.trust import canonical_sha256
from bollard.wire import CatalogueProblem, ToolCatalogue

_UNKNOWN: Final = "unknown"
_NEVER: Final = "never "
_BITS: Final = ("reads_private", "brings_untrusted", "sends_out")


def tool_id(plugin_id: str, name: str) -> str:
    return f"tool:{plugin_id}/{name}"


def claims_of(risk: str | None, flow: FlowBits | None) -> str:
    """The claims of a plugin about a tool, as the text of a consent: `low, never sends_out`. A missing claim counts as
    the worst case."""
    never = [_NEVER + bit for bit in _BITS if flow is not None and not getattr(flow, bit)]
    return ", ".join([risk or _UNKNOWN, *never])


def definition_digests(tools: Iterable[ToolDefinition]) -> dict[str, str]:
    """The digest of each tool's whole definition, by name."""
    return {each.name: canonical_sha256(each.to_wire()) for each in tools}


def usable_tools(
    catalogue: ToolCatalogue, consented: Mapping[str, str] | None, pins: Mapping[str, str] | None
) -> tuple[list[ToolDefinition], dict[str, Why], list[Why]]:
    """The tools within the consent; why each other tool is refused, by name; and the problems of invalid entries.

    `consented` has the claims by tool, and is `None` where the operator's settings are the consent; `pins` has the
    consented digests of the definitions."""
    digests = definition_digests(catalogue.tools)
    usable: list[ToolDefinition] = []
    refused: dict[str, Why] = {}
    for tool in catalogue.tools:
        if consented is not None and tool.name not in consented:
            refused[tool.name] = why("it has no consent", "plugin_tool.no_consent")
        elif pins is not None and pins.get(tool.name) != digests[tool.name]:
            refused[tool.name] = why("its definition changed since the consent", "plugin_tool.changed")
        else:
            usable.append(tool)
    offered = {tool.name for tool in catalogue.tools}
    for name in consented or ():
        if name not in offered:
            refused[name] = why("the worker does not offer it", "plugin_tool.not_offered")
    return usable, refused, [why_entry(each) for each in catalogue.problems]


def why_entry(problem: CatalogueProblem) -> Why:
    """The problem of an entry that the host skipped."""
    field = f"{problem.entry}: {problem.field}"
    found = {**problem.details, "field": field, "problem": problem.problem}
    return Why(f"{field}: {problem.problem}", {"problems": [found]})


def capability_of(tool: ToolDefinition, *, plugin_id: str, version: str, claims: str | None) -> Capability:
    """A tool as a capability. `version` pins the plugin's code; `claims` are the consented claims."""
    risk, flow = _parse_risk(tool.risk), _parse_flow(tool.flow)
    if claims is not None:
        consented, *never = claims.split(", ")
        risk = RISKS[max(RISKS.index(risk), RISKS.index(_parse_risk(consented)))]
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


def _parse_risk(text: str | None) -> Risk:
    """A missing or unknown risk counts as high."""
    return next((risk for risk in get_args(Risk) if risk == text), "high")


def _parse_flow(declared: FlowBits | None) -> Flow:
    if declared is None:
        return ALL_FLOW
    bits: JsonObject = declared.to_wire()
    return Flow(**{bit: bits.get(bit) is not False for bit in _BITS})

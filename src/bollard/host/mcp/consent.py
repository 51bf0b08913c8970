"""Compares the tools that an MCP server lists with the consents to them. Pure.

A consent is to one definition, by its digest. A tool whose definition changed needs a new consent.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from pydantic import Field

from bollard.host.capabilities.capability import ALL_FLOW, Approval, Capability, CapabilityLimits, Effects, Flow, Risk
from bollard.host.mcp.limits import CONSENT_TOOLS, DIFF_LINES
from bollard.host.mcp.servers import SavedMcpServer
from bollard.host.reason import NO_PROBLEM, Why, why
from bollard.protocol import Digest, Flag, JsonObject, JsonValue, Strict
from bollard.wire.bridge_frames import ToolSeen

ToolState = Literal["offered", "new", "changed", "missing", "refused", "unusable"]
"""`refused`: the list of allowed tools of the server does not have it."""


class Terms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The risk, flow, effects and approval of a tool. The defaults are the worst case."""

    risk: Risk = "high"
    flow: Flow = ALL_FLOW
    effects: Effects = "at_most_once"
    approval: Approval = "on_risk"


NO_TERMS: Final = Terms()


class ToolConsent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The consent of a person to one definition of a tool, on these terms. The log stores it unchanged."""

    definition_sha256: str
    definition: dict[str, Any]  # JSON; the decoder does not know `JsonValue`
    """The consented description and schemas, to show later what changed."""
    terms: Terms
    by: str
    at: float
    """Seconds of the epoch."""


class ServerTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool of a server, with the state of its consent."""

    name: str
    state: ToolState
    capability: Capability | None
    """The current definition of the server, on the consented or the suggested terms."""
    agreed: ToolConsent | None = None
    problem: Why = NO_PROBLEM
    """Why it is not offered."""
    diff: tuple[str, ...] = ()


def suggested(seen: ToolSeen) -> Terms:
    """Terms from the hints of a server. The hints are untrusted, so a person confirms them; they never apply alone."""
    if seen.read_only is None and seen.destructive is None and seen.idempotent is None and seen.open_world is None:
        return NO_TERMS
    read_only = seen.read_only is True
    destructive = seen.destructive is not False
    return Terms(
        risk="low" if read_only else "high" if destructive else "medium",
        # In spite of the hints: output of a server is untrusted, and the data that it reads may be private.
        flow=Flow(reads_private=True, brings_untrusted=True, sends_out=seen.open_world is not False),
        effects="none" if read_only else "idempotent" if seen.idempotent is True else "at_most_once",
    )


def seen_capability(server: SavedMcpServer, seen: ToolSeen, terms: Terms) -> Capability:
    """A tool as the server defines it now, as a capability on these terms."""
    return Capability(
        id=f"mcp:{server.server_id}/{seen.name}",
        name=seen.name,
        kind="mcp",
        description=seen.description,
        input_schema=seen.input_schema,
        output_schema=seen.output_schema,
        risk=terms.risk,
        flow=terms.flow,
        effects=terms.effects,
        approval=terms.approval,
        limits=CapabilityLimits(timeout_s=server.timeout_s),
        source=f"mcp:{server.server_id}",
        version=server.endpoint,
    )


def definition_of(capability: Capability) -> JsonObject:
    """The part of a definition that is stored with its digest."""
    return {
        "description": capability.description,
        "input_schema": capability.input_schema,
        "output_schema": capability.output_schema,
        "version": capability.version,
    }


def evaluate_tools(
    server: SavedMcpServer, seen: Sequence[ToolSeen], agreed: Mapping[str, ToolConsent]
) -> list[ServerTool]:
    """Every tool that the server lists or that has a consent, by name."""
    tools = [_evaluate(server, tool, agreed.get(tool.name)) for tool in seen]
    listed = {tool.name for tool in seen}
    tools += [
        ServerTool(
            name=name,
            state="missing",
            capability=None,
            agreed=consent,
            problem=why(
                f"the server {server.server_id} does not list {name} any more",
                "mcp.tool_missing",
                server=server.server_id,
                name=name,
            ),
        )
        for name, consent in agreed.items()
        if name not in listed
    ]
    return sorted(tools, key=lambda tool: tool.name)


def _evaluate(server: SavedMcpServer, seen: ToolSeen, agreed: ToolConsent | None) -> ServerTool:
    if seen.problem is not None:
        problem = Why(seen.problem, seen.details)
        return ServerTool(name=seen.name, state="unusable", capability=None, agreed=agreed, problem=problem)
    capability = seen_capability(server, seen, suggested(seen) if agreed is None else agreed.terms)
    if not server.allows(seen.name):
        problem = why(
            f"{seen.name} is not in the list of allowed tools of the server {server.server_id}",
            "mcp.tool_refused",
            server=server.server_id,
            name=seen.name,
        )
        return ServerTool(name=seen.name, state="refused", capability=capability, agreed=agreed, problem=problem)
    if agreed is None:
        problem = why(
            f"{seen.name} of the server {server.server_id} has no consent yet",
            "mcp.tool_new",
            server=server.server_id,
            name=seen.name,
        )
        return ServerTool(name=seen.name, state="new", capability=capability, problem=problem)
    if agreed.definition_sha256 != capability.definition_sha256:
        return ServerTool(
            name=seen.name,
            state="changed",
            capability=capability,
            agreed=agreed,
            problem=why(f"the definition of {seen.name} changed since the consent", "mcp.tool_changed", name=seen.name),
            diff=difference(agreed.definition, definition_of(capability)),
        )
    return ServerTool(name=seen.name, state="offered", capability=capability, agreed=agreed)


def difference(before: JsonObject, after: JsonObject) -> tuple[str, ...]:
    """The changes, one line for each path, with control characters escaped. Takes linear time: both definitions are
    untrusted."""
    lines = [*_differences("", before, after)]
    if len(lines) <= DIFF_LINES:
        return tuple(lines)
    return (*lines[:DIFF_LINES], f"… and {len(lines) - DIFF_LINES} more lines")


def _differences(path: str, before: JsonValue, after: JsonValue) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            place = f"{path}.{_escaped(name)}" if path else _escaped(name)
            if name not in after:
                yield f"- {place}: {_escaped(before[name])}"
            elif name not in before:
                yield f"+ {place}: {_escaped(after[name])}"
            else:
                yield from _differences(place, before[name], after[name])
    else:
        yield f"- {path}: {_escaped(before)}"
        yield f"+ {path}: {_escaped(after)}"


def _escaped(value: JsonValue) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return text[1:-1] if isinstance(value, str) and value.isidentifier() and value.isascii() else text


# --- requests ---

_ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


class _Flow(Strict):
    reads_private: Flag
    brings_untrusted: Flag
    sends_out: Flag


class _Terms(Strict):
    risk: Risk | None = Field(default=None, description="The suggested one, if it is left out.")
    flow: _Flow | None = None
    effects: Effects | None = None
    approval: Approval | None = None


class _Yes(_Terms):
    """The consent to one tool."""

    name: _ToolName
    definition_sha256: Digest


class ConsentMcpTools(Strict):
    """`POST /api/v1/mcp-servers/{server_id}/consent`."""

    tools: Annotated[list[_Yes], Field(max_length=CONSENT_TOOLS)] = Field(default_factory=list[_Yes])
    withdraw: Annotated[list[_ToolName], Field(max_length=CONSENT_TOOLS)] = Field(
        default_factory=list[str], description="Tools whose consent is withdrawn."
    )


def terms_of(chosen: _Terms, otherwise: Terms) -> Terms:
    """The terms that a person chose, completed with the suggested ones."""
    return Terms(
        risk=chosen.risk or otherwise.risk,
        flow=otherwise.flow if chosen.flow is None else Flow(**chosen.flow.model_dump()),
        effects=chosen.effects or otherwise.effects,
        approval=chosen.approval or otherwise.approval,
    )


def terms_on(capability: Capability) -> Terms:
    """The terms of a tool as it is offered or suggested."""
    return Terms(risk=capability.risk, flow=capability.flow, effects=capability.effects, approval=capability.approval)

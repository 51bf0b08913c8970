"""What somebody said yes to, as it is kept and as it comes in. Reading and writing only."""

from typing import Annotated, Final

from pydantic import Field, ValidationError

from bollard.host.agents.refusal import refusal
from bollard.host.capabilities.capability import ALL_FLOW, Approval, Effects, Flow, Risk
from bollard.host.mcp.consent import Agreed, Terms
from bollard.host.mcp.limits import CONSENT_TOOLS
from bollard.protocol import Digest, Flag, JsonObject, Strict, Timestamp

__all__ = ["ConsentMcpTools", "agreed_from_store", "agreed_to_wire", "terms_of", "terms_to_wire"]

_ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


class _Flow(Strict):
    reads_private: Flag
    brings_untrusted: Flag
    sends_out: Flag


class _Terms(Strict):
    risk: Risk | None = Field(default=None, description="As suggested, where it is left out.")
    flow: _Flow | None = None
    effects: Effects | None = None
    approval: Approval | None = None


class _Yes(_Terms):
    """A yes to one tool."""

    name: _ToolName
    definition_sha256: Digest


class ConsentMcpTools(Strict):
    """`POST /api/v1/mcp-servers/{server_id}/consent`."""

    tools: Annotated[list[_Yes], Field(max_length=CONSENT_TOOLS)] = Field(default_factory=list[_Yes])
    withdraw: Annotated[list[_ToolName], Field(max_length=CONSENT_TOOLS)] = Field(
        default_factory=list[str], description="Tools that are agreed to no more."
    )


class _Kept(Strict):
    definition_sha256: Digest
    definition: JsonObject
    terms: _Terms
    by: str
    at: Timestamp


_MS: Final = 1000


def terms_of(given: _Terms, otherwise: Terms) -> Terms:
    """What a person said, and what was suggested where the person said nothing."""
    flow = given.flow
    return Terms(
        risk=given.risk or otherwise.risk,
        flow=otherwise.flow
        if flow is None
        else Flow(reads_private=flow.reads_private, brings_untrusted=flow.brings_untrusted, sends_out=flow.sends_out),
        effects=given.effects or otherwise.effects,
        approval=given.approval or otherwise.approval,
    )


def terms_to_wire(terms: Terms) -> JsonObject:
    return {
        "risk": terms.risk,
        "flow": {
            "reads_private": terms.flow.reads_private,
            "brings_untrusted": terms.flow.brings_untrusted,
            "sends_out": terms.flow.sends_out,
        },
        "effects": terms.effects,
        "approval": terms.approval,
    }


def agreed_to_wire(agreed: Agreed) -> JsonObject:
    return {
        "definition_sha256": agreed.definition_sha256,
        "definition": agreed.definition,
        "terms": terms_to_wire(agreed.terms),
        "by": agreed.by,
        "at": agreed.at_ms / _MS,
    }


def agreed_from_store(body: JsonObject) -> Agreed:
    """One that was kept before. Raises `InvalidRequest`."""
    try:
        kept = _Kept.from_wire(body)
    except ValidationError as error:
        raise refusal(error, "mcp_server.agreed") from error
    return Agreed(
        definition_sha256=kept.definition_sha256,
        definition=kept.definition,
        terms=terms_of(kept.terms, Terms(flow=ALL_FLOW)),
        by=kept.by,
        at_ms=round(kept.at * _MS),
    )

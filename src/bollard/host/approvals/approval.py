"""One question to people as it is kept: everything that was asked, and until when. Frozen, read back strictly."""

from typing import Final, cast

import msgspec

from bollard.host.approvals.proposal import Proposal, Why, requester_of
from bollard.host.capabilities.capability import Effects, Risk
from bollard.host.errors import InvalidRequest
from bollard.host.store.action_rows import ApprovalRow
from bollard.protocol import JsonObject

__all__ = ["Approval", "Requester", "Said", "approval_of", "asked", "said_of"]


class Requester(msgspec.Struct, frozen=True, kw_only=True):
    """For whom the run acts."""

    type: str
    id: str | None = None


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """As the data of `approval.requested` has it: enough to show it and to carry it out after any restart."""

    approval_id: str
    workspace: str
    run_id: str
    call_id: str
    agent_id: str
    digest: str
    capability: str
    name: str
    kind: str
    source: str
    version: str
    definition_sha256: str
    arguments: dict[str, object]
    grant_sha256: str
    risk: Risk
    effects: Effects
    why: tuple[Why, ...]
    flow: int
    expires_ms: int
    created_ms: int
    other_person: bool = False
    requester: Requester | None = None
    target: str | None = None
    explanation: str | None = None

    @property
    def sent_arguments(self) -> JsonObject:
        """The bytes that were asked about."""
        return cast("JsonObject", self.arguments)

    def data(self) -> JsonObject:
        return cast("JsonObject", msgspec.to_builtins(self))


_read: Final = msgspec.json.Decoder(Approval).decode


def asked(proposal: Proposal, approval_id: str, now_ms: int) -> Approval:
    """The question that a proposal becomes."""
    context, capability = proposal.context, proposal.capability
    requester = requester_of(context)
    return Approval(
        approval_id=approval_id,
        workspace=context.workspace,
        run_id=context.run_id,
        call_id=proposal.call_id,
        agent_id=context.agent_id,
        digest=proposal.digest,
        capability=capability.id,
        name=proposal.name,
        kind=capability.kind,
        source=capability.source,
        version=capability.version,
        definition_sha256=capability.definition_sha256,
        arguments=dict[str, object](proposal.arguments),
        grant_sha256=proposal.grant_sha256,
        risk=capability.risk,
        effects=capability.effects,
        why=proposal.why,
        flow=proposal.flow.bits,
        expires_ms=now_ms + proposal.policy.expires_s * 1000,
        created_ms=now_ms,
        other_person=proposal.policy.other_person,
        requester=None if requester is None else msgspec.convert(requester, Requester),
        target=proposal.target,
        explanation=proposal.explanation,
    )


def approval_of(row: ApprovalRow) -> Approval:
    """A question as the store has it; raises `InvalidRequest` for what no version of this host wrote."""
    try:
        return _read(row.body)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(
            f"the approval {row.approval_id} cannot be read: {error}", hint="it was asked by another version; deny it"
        ) from error


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a question, as the data of its last record has it."""

    by: str | None = None
    decision: str | None = None
    reason: str | None = None
    inspected: bool | None = None


_read_said: Final = msgspec.json.Decoder(Said).decode


def said_of(row: ApprovalRow) -> Said:
    return Said() if row.decision is None else _read_said(row.decision)

"""Frozen values of an approval: the proposed call, its digest, the stored approval, its outcome and its errors."""

from typing import Final, Literal, cast, get_args

import msgspec

from bollard.host.agents.policies import ApprovalPolicy
from bollard.host.capabilities.capability import NO_FLOW, Capability, Effects, Flow, Risk
from bollard.host.capabilities.sources import CallContext
from bollard.host.errors import ApprovalDenied, ApprovalExpired, Conflict, InvalidRequest, NotFound, caused_by
from bollard.host.log.records import InteractionRoute
from bollard.host.store.action_rows import ApprovalRow
from bollard.protocol import JsonObject, JsonValue
from bollard.trust import canonical_sha256

Decision = Literal["allow_once", "allow_run", "deny", "deny_stop"]
DECISIONS: Final[tuple[Decision, ...]] = get_args(Decision)
Why = Literal["risk", "always", "rule", "flow"]
"""Why a call needs approval: the capability's risk, a policy that always asks, a rule of the agent, or the combination
of data flows."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A resolved and validated call that needs approval."""

    call_id: str
    capability: Capability
    name: str
    """The name the model used."""
    arguments: JsonObject
    context: CallContext
    grant_sha256: str
    policy: ApprovalPolicy
    why: tuple[Why, ...]
    flow: Flow = NO_FLOW
    """The run's data flow including this call."""
    target: str | None = None
    """The target, if the arguments do not name it: the conversation of a message, a server's address."""
    explanation: str | None = None
    """The agent's explanation. Displayed separately and not part of the digest."""

    @property
    def digest(self) -> str:
        """The digest of everything the approver allows. Any changed byte changes it."""
        return canonical_sha256(
            {
                "run": self.context.run_id,
                "call_id": self.call_id,
                "capability": self.capability.id,
                "definition_sha256": self.capability.definition_sha256,
                "arguments": self.arguments,
                "target": self.target,
                "grant_sha256": self.grant_sha256,
                "requester": requester_of(self.context),
            }
        )


def requester_of(context: CallContext) -> JsonValue:
    """The actor the run acts for; null if no actor caused the run."""
    return None if context.actor is None else {"type": context.actor.type, "id": context.actor.id}


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """Permission to make one call once."""

    approval_id: str
    decision: Literal["allow_once", "allow_run"]
    by: str
    """The name of the caller who approved."""
    digest: str


class Requester(msgspec.Struct, frozen=True, kw_only=True):
    """The actor the run acts for."""

    type: str
    id: str | None = None


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """The data of an `approval.requested` record: enough to display the call and to make it after a restart."""

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
    interaction: InteractionRoute | None = None
    """Where a conversation shows it; null if its run delivers nowhere."""

    @property
    def sent_arguments(self) -> JsonObject:
        """The arguments of the call, covered by the digest."""
        return cast("JsonObject", self.arguments)

    def data(self) -> JsonObject:
        return cast("JsonObject", msgspec.to_builtins(self))

    def closing(self, **fields: JsonValue) -> JsonObject:
        """The data of a record that closes it, which also updates its interaction."""
        data: JsonObject = {"approval_id": self.approval_id, "call_id": self.call_id, **fields}
        return data if self.interaction is None else {**data, "interaction": msgspec.to_builtins(self.interaction)}


_read: Final = msgspec.json.Decoder(Approval).decode


def build_approval(
    proposal: Proposal, approval_id: str, now_ms: int, interaction: InteractionRoute | None = None
) -> Approval:
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
        interaction=interaction,
    )


def approval_of(row: ApprovalRow) -> Approval:
    """Decode a stored approval. Raises `InvalidRequest` if this version cannot read it."""
    try:
        return _read(row.body)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(
            f"the approval {row.approval_id} cannot be read: {error}",
            reason="approval_unreadable",
            hint="another version of the host wrote it; deny it",
            approval_id=row.approval_id,
            **caused_by(error),
        ) from error


class ApprovalOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The data of the record that closed an approval."""

    by: str | None = None
    decision: str | None = None
    reason: str | None = None
    inspected: bool | None = None


_read_outcome: Final = msgspec.json.Decoder(ApprovalOutcome).decode


def outcome_of(row: ApprovalRow) -> ApprovalOutcome:
    return ApprovalOutcome() if row.decision is None else _read_outcome(row.decision)


# --- errors ---


def denied_error(approval: Approval, by: str) -> ApprovalDenied:
    return ApprovalDenied(
        f"the call of {approval.name} was denied",
        reason="call_denied",
        hint="continue without it, or ask what would be allowed",
        approval_id=approval.approval_id,
        by=by,
        tool=approval.name,
    )


def expired_error(approval: Approval) -> ApprovalExpired:
    return ApprovalExpired(
        f"the call of {approval.name} was not approved in time",
        reason="not_approved_in_time",
        hint="request it again when an approver is available, or raise policy.approval.expires_s of the agent",
        approval_id=approval.approval_id,
        tool=approval.name,
    )


def run_ended_error(approval: Approval) -> ApprovalDenied:
    return ApprovalDenied(
        f"the run that requested {approval.name} has ended",
        reason="requesting_run_ended",
        hint="start another run",
        approval_id=approval.approval_id,
        tool=approval.name,
    )


def no_approval() -> NotFound:
    """The same error for an absent approval and for one that the caller may not see."""
    return NotFound("there is no such approval", reason="no_approval", hint="`bollard approvals` lists the open ones")


_STALE: Final = {
    "granted": ("already_allowed", "the approval was already granted"),
    "used": ("already_executed", "the approval was already granted, and the call was made"),
    "denied": ("already_denied", "the approval was already denied"),
    "expired": ("approval_over", "the approval has expired, or its run no longer waits for it"),
    "requested": ("being_decided", "another decision is being recorded"),
}


def stale_error(status: str | None) -> Conflict:
    """The error for a decision that comes too late and has no effect."""
    status = status if status in _STALE else "requested"
    reason, message = _STALE[status]
    return Conflict(message, reason=reason, hint="read the approval again to see its outcome", status=status)

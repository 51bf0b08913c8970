"""One question to people as it is kept: everything that was asked, and until when. Frozen, read back strictly."""

from typing import Final, Literal, cast, get_args

import msgspec

from bollard.host.agents.policies import ApprovalPolicy
from bollard.host.capabilities.capability import NO_FLOW, Capability, Effects, Flow, Risk
from bollard.host.capabilities.sources import CallContext
from bollard.host.errors import ApprovalDenied, ApprovalExpired, Conflict, InvalidRequest, NotFound
from bollard.host.store.action_rows import ApprovalRow
from bollard.protocol import JsonObject, JsonValue
from bollard.trust import canonical_sha256

# What a person is asked to allow: one call of one run, byte for byte, and the digest that stands for it. Pure.


Decision = Literal["allow_once", "allow_run", "deny", "deny_stop"]
DECISIONS: Final[tuple[Decision, ...]] = get_args(Decision)
Why = Literal["risk", "always", "flow"]
"""Why somebody must be asked: the capability's risk, a policy that always asks, or what would flow together."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """One call that was resolved and checked and may be done only if somebody says yes."""

    call_id: str
    capability: Capability
    name: str
    """What the model called it."""
    arguments: JsonObject
    context: CallContext
    grant_sha256: str
    policy: ApprovalPolicy
    why: tuple[Why, ...]
    flow: Flow = NO_FLOW
    """What the run has touched, with this call."""
    target: str | None = None
    """Where it acts, where the arguments do not say it all: the conversation of a message, a server's address."""
    explanation: str | None = None
    """The agent's own words. Shown apart, and no part of what is allowed."""

    @property
    def digest(self) -> str:
        """One byte changed, and it is another question."""
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
    """For whom the run acts; nobody for what no actor caused."""
    if context.actor_type is None:
        return None
    return {"type": context.actor_type, "id": context.actor_id}


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """A yes to one call. Whoever holds it makes that call once."""

    approval_id: str
    decision: Literal["allow_once", "allow_run"]
    by: str
    """Who said yes: the name of the caller."""
    digest: str


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


class ApprovalOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a question, as the data of its last record has it."""

    by: str | None = None
    decision: str | None = None
    reason: str | None = None
    inspected: bool | None = None


_read_said: Final = msgspec.json.Decoder(ApprovalOutcome).decode


def said_of(row: ApprovalRow) -> ApprovalOutcome:
    return ApprovalOutcome() if row.decision is None else _read_said(row.decision)


# What is said to whoever waits for an answer, and to whoever answers what is not open any more.


def denied(approval: Approval, by: str) -> ApprovalDenied:
    return ApprovalDenied(
        f"somebody said no to {approval.name}",
        hint="do something else, or ask what would be allowed",
        approval_id=approval.approval_id,
        by=by,
    )


def expired(approval: Approval) -> ApprovalExpired:
    return ApprovalExpired(
        f"nobody allowed {approval.name} in time",
        hint="ask again when somebody is there, or let policy.approval.expires_s of the agent be longer",
        approval_id=approval.approval_id,
    )


def gone(approval: Approval) -> ApprovalDenied:
    return ApprovalDenied(
        f"the run that wanted {approval.name} is over",
        hint="start another run",
        approval_id=approval.approval_id,
    )


def no_approval() -> NotFound:
    """What is said of every approval that is not there, or not for the caller: the same bytes."""
    return NotFound("there is no such approval", hint="`bollard approvals` lists those that wait for an answer")


def stale(status: str | None) -> Conflict:
    """A click that comes too late decides nothing, and says so."""
    words = {
        "granted": "it was allowed already",
        "used": "it was allowed already, and done",
        "denied": "it was denied already",
        "expired": "it has expired, or its run does not wait for it any more",
        "requested": "somebody is deciding it right now",
    }
    return Conflict(
        f"this decides nothing: {words.get(status or '', 'somebody is deciding it right now')}",
        hint="read the approval again: it says what became of it",
        status=status or "requested",
    )

"""What is said to whoever waits for an answer, and to whoever answers what is not open any more."""

from bollard.host.approvals.approval import Approval
from bollard.host.errors import ApprovalDenied, ApprovalExpired, Conflict, NotFound

__all__ = ["denied", "expired", "gone", "no_approval", "stale"]


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

"""What would become of an event, as the API tells it. Pure."""

from bollard.host.agents.admission import Admission, Interrupt, Queue, Reject, Start, Steer
from bollard.host.agents.routing import Step
from bollard.host.agents.words import Locale, sentence
from bollard.host.errors import HostError
from bollard.host.grants.grant import Grant
from bollard.host.grants.revocation import granted_operations
from bollard.host.intake.accepted import Preview
from bollard.protocol import JsonObject

__all__ = ["preview_body"]


def preview_body(preview: Preview, locale: Locale) -> JsonObject:
    found = preview.resolution
    return {
        "binding": found.binding_id,
        "agent": None if found.agent is None else found.agent.agent_id,
        "steps": [_step(step, locale) for step in found.steps],
        "decision": None if preview.decision is None else _decision(preview.decision),
        "refused": None if preview.refused is None else _refused(preview.refused),
        "grant": None if preview.grant is None else _summary(preview.grant),
    }


def _step(step: Step, locale: Locale) -> JsonObject:
    said: JsonObject = {"key": step.key, "text": sentence(step.key, step.fields, locale)}
    return {"binding": step.fields["binding"], **said} if "binding" in step.fields else said


def _decision(decision: Admission) -> JsonObject:
    match decision:
        case Start():
            return {"kind": "start"}
        case Queue():
            return {"kind": "queue"}
        case Steer(run_id):
            return {"kind": "steer", "run_ids": [run_id]}
        case Interrupt(run_ids):
            return {"kind": "interrupt", "run_ids": [*run_ids]}
        case Reject(sentence=said):
            return {"kind": "reject", "message": said}


def _refused(refused: HostError) -> JsonObject:
    body: JsonObject = {"code": refused.code, "message": refused.message, "hint": refused.hint}
    wait_s = refused.details.get("retry_after_s")
    return body if wait_s is None else {**body, "retry_after_s": wait_s}


def _summary(grant: Grant) -> JsonObject:
    """What the run could do, by name."""
    rights = grant.access.rights
    return {
        "operations": [*sorted(granted_operations(grant))],
        "resources": {kind: [*sorted(held)] for kind, held in sorted(rights.resources.items())},
        "conversations": [*sorted(rights.conversations)],
        "state": [*sorted(grant.state_keys)],
        "steerable": grant.steerable,
        "deadline_s": grant.limits.deadline_s,
    }

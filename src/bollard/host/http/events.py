"""`/events` and `/resolve`: something happened, and what would become of it."""

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.agents.admission import Admission, Interrupt, Queue, Reject, Start, Steer
from bollard.host.agents.gates import Refused
from bollard.host.agents.routing import Step
from bollard.host.agents.words import Locale, sentence
from bollard.host.errors import InvalidRequest
from bollard.host.grants.grant import Grant
from bollard.host.grants.revocation import granted_operations
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.requests import PostEvent, ResolveEvent, chosen_id, parsed
from bollard.host.http.run_rows import WORKSPACE, accepted_body
from bollard.host.intake.intake import Intake
from bollard.protocol import JsonObject

__all__ = ["Events"]


class Events:
    """Events from outside."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def post(self, request: Request) -> Response:
        """Without an agent the bindings say whose it is."""
        body = parsed(PostEvent, await read_body(request))
        source_id = chosen_id(request, body.id)
        if source_id is None:
            raise InvalidRequest(
                "id: this field is needed", hint="name the event, so that it is known again", field="id"
            )
        accepted = await self._intake.accept(body.event(body.source, source_id, body.type), WORKSPACE, body.agent)
        return JsonAnswer(accepted_body(accepted), status_code=202 if accepted.first else 200)

    async def resolve(self, request: Request) -> Response:
        """Nothing is written, nothing is counted."""
        body = parsed(ResolveEvent, await read_body(request))
        event = body.event(body.source, body.id, body.type, body.trigger)
        preview = self._intake.preview(event, WORKSPACE, body.agent)
        found = preview.resolution
        return JsonAnswer(
            {
                "binding": found.binding_id,
                "agent": None if found.agent is None else found.agent.agent_id,
                "steps": [_step(step, body.locale) for step in found.steps],
                "decision": None if preview.decision is None else _decision(preview.decision),
                "refused": None if preview.refused is None else _refused(preview.refused),
                "grant": None if preview.grant is None else _summary(preview.grant),
            }
        )


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


def _refused(refused: Refused) -> JsonObject:
    body: JsonObject = {"code": refused.code, "message": refused.sentence, "hint": refused.hint}
    return body if refused.retry_after_s is None else {**body, "retry_after_s": round(refused.retry_after_s, 3)}


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

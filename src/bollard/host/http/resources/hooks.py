"""`/hooks`: save webhook routes, receive their requests, test them, and list their last requests.

A request has no API token: the verifier of its route authenticates it.
"""

import secrets
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.clock import Clock
from bollard.host.errors import InvalidRequest
from bollard.host.hooks.hook import Hook
from bollard.host.hooks.registry import HOOK, HookRepository
from bollard.host.hooks.samples import signed_headers
from bollard.host.hooks.verifier import HeaderName
from bollard.host.http.answers import BODY_BYTES, JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.events.hook_reception import HookReception
from bollard.host.http.events.hook_requests import HookEvent, HookRequest
from bollard.host.http.events.payloads import Payload
from bollard.host.http.openapi.examples import ACCEPTED_EXAMPLE
from bollard.host.http.openapi.schemas import ANY, NUMBER, TEXT, choice, fields, maybe
from bollard.host.http.operations import Answer
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import answer_body, operation
from bollard.host.http.resources.runs import EVENT_ERRORS
from bollard.host.http.resources.saved_routes import SavedResource, SecretRoutes, shown_as
from bollard.protocol import Flag, JsonObject, Strict

_BODY: Final[JsonObject] = {
    "verifier": {"kind": "github"},
    "agent": "parrot",
    "event": {"conversation": "issue-{body.issue.number}", "text": "{body.issue.title}"},
}
_HOOK: Final = SavedResource(
    kind=HOOK,
    path="/api/v1/hooks",
    id="hook_id",
    names=("Hook", "Hooks"),
    right="hooks",
    body=Hook,
    body_example=_BODY,
    shown=shown_as("Hook", Hook, {"hook_id": "github", **_BODY}, {"secret": TEXT}),
    created={"secret": "Xh8…"},
    summaries={"list": "List the webhook routes of the workspace."},
    descriptions={
        "save": "The verifier says how the sender proves its requests. Without `secret` the host makes one, unless the "
        "sender does; the answer shows a new secret once."
    },
)
_DELIVERY: Final = answer_body(
    "HookDelivery",
    {
        "received_at": 1794735485.1,
        "outcome": "accepted",
        "reason": None,
        "topic": "issues",
        "message_id": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "event_id": "evt_01",
        "run_id": "run_01",
        "size_bytes": 7480,
    },
    outcome=choice("accepted", "repeated", "handshake", "ignored", "refused", "failed"),
    **{name: maybe(TEXT) for name in ("reason", "topic", "message_id", "event_id", "run_id")},
)
_TESTED: Final = answer_body(
    "HookTest",
    {
        "event": {"type": "webhook.received", "topic": "issues", "text": "It breaks"},
        "answer": {"status": 202, "content_type": "application/json", "body": "…"},
    },
    event=ANY,
    answer=maybe(fields(status=NUMBER, content_type=TEXT, body=TEXT)),
)
_SAMPLE_CHARACTERS: Final = BODY_BYTES


class HookSample(Strict):
    """`POST /api/v1/hooks/{id}/test`: a body to sign and send as the sender would."""

    __qualname__ = "TestHook"
    body: Annotated[str, Field(max_length=_SAMPLE_CHARACTERS)]
    headers: Annotated[dict[HeaderName, Annotated[str, Field(max_length=1024)]], Field(max_length=32)] = Field(
        default_factory=dict
    )
    dry_run: Flag = Field(default=False, description="Only map the event, and save nothing.")


class Hooks(SecretRoutes[Hook]):
    """Webhook routes and their requests."""

    resource = _HOOK

    def __init__(self, repository: HookRepository, reception: HookReception, pages: Pages, clock: Clock) -> None:
        super().__init__(repository, pages)
        self._repository: HookRepository = repository
        self._reception = reception
        self._clock = clock

    # --- requests ---

    @operation(
        "POST /hooks/{hook_id}",
        name="receiveHook",
        summary="Receive a request of a webhook route.",
        description="Needs no token: the verifier of the route authenticates the request. The route says which event "
        "it becomes, and how it is answered.",
        open=True,
        any_query=True,
        body=ANY,
        body_example={"action": "opened", "issue": {"number": 7, "title": "It breaks"}},
        repeat="own",
        answers={
            202: Answer(summary="The event is on disk.", schema=ANY, example=ACCEPTED_EXAMPLE),
            200: Answer(
                summary="A repeated event with its first outcome, the answer of the run, a fixed answer, or the answer "
                "to a request that is no event.",
                schema=ANY,
                example=ACCEPTED_EXAMPLE,
            ),
        },
        errors=(*EVENT_ERRORS, "unauthenticated", "unsupported_media_type"),
    )
    async def receive(self, request: Request) -> Response:
        return await self._reception.receive(request, self._id(request))

    # --- deliveries and tests ---

    @operation(
        "GET /api/v1/hooks/{hook_id}/deliveries",
        name="getHookDeliveries",
        summary="Show the last requests of a webhook route, newest first.",
        description="The host holds them in memory: they start anew with it.",
        right="hooks.read",
        answers={200: _DELIVERY.page("deliveries")},
        errors=("not_found",),
    )
    async def deliveries(self, request: Request) -> Response:
        saved = self._repository.get(caller_of(request).workspace, self._id(request))
        found = self._repository.traffic(saved).deliveries.newest_first()
        return JsonAnswer({"items": [_DELIVERY.of(each) for each in found], "has_more": False})

    @operation(
        "POST /api/v1/hooks/{hook_id}/test",
        name="testHook",
        summary="Send a sample to a webhook route, signed as its sender would sign it.",
        description="The host signs the sample with the secret of the route. `event` is the event that it becomes, and "
        "`answer` what the sender would get; a dry run has none.",
        right="hooks.write",
        body=HookSample,
        body_example={"body": '{"issue": {"number": 7}}', "headers": {"X-GitHub-Event": "issues"}, "dry_run": True},
        answers={200: _TESTED.answer("The event, and the answer.")},
        errors=(*EVENT_ERRORS, "unsupported_media_type"),
    )
    async def test(self, request: Request) -> Response:
        saved = self._repository.get(caller_of(request).workspace, self._id(request))
        sample, hook = parsed(HookSample, await read_body(request)), saved.value
        if not hook.is_open:
            raise InvalidRequest(
                "the route is disabled or has no secret", reason="hook_closed", hint="enable it, or set a secret"
            )
        content = sample.body.encode()
        payload = Payload(size=len(content), held=content)
        sent = HookRequest(headers=self._sample_headers(hook, sample, content), query={})
        event = _shown_event(await self._reception.read(hook, sent, payload))
        if sample.dry_run:
            return JsonAnswer({"event": event, "answer": None})
        reply = await self._reception.take(saved, sent, payload)
        answer = {
            "status": reply.status_code,
            "content_type": reply.headers.get("content-type", ""),
            "body": bytes(reply.body).decode(),
        }
        return JsonAnswer({"event": event, "answer": answer})

    def _sample_headers(self, hook: Hook, sample: HookSample, content: bytes) -> Mapping[str, str]:
        now_s, message_id = self._clock.now_ms() / 1000, f"test-{secrets.token_hex(8)}"
        signed = signed_headers(hook.verifier, hook.secret or "", content, now_s, message_id)
        given = {name.lower(): value for name, value in sample.headers.items()}
        return {"content-type": "application/json", **signed, **given}


def _shown_event(found: HookEvent) -> JsonObject:
    shown: JsonObject = {
        name: value
        for name, value in msgspec.structs.asdict(found.mapped).items()
        if value is not None and name != "data"
    }
    return {**shown, "data": found.data.values}

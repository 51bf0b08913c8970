"""The event of a request: where each sender has its topic and its id, and requests that are no events."""

import base64
from typing import Any

from tests.tables import for_each

from bollard.host.hooks.hook import Hook
from bollard.host.hooks.mapping import handshake, map_event

PLAIN = "a plain secret of a route"
SIGNING = "whsec_" + base64.b64encode(b"k" * 32).decode()
HEADERS = {
    "x-github-event": "issues",
    "x-github-delivery": "gh-1",
    "x-gitlab-event": "Push Hook",
    "idempotency-key": "gl-1",
    "webhook-id": "msg-1",
}
BODY: dict[str, Any] = {"type": "charge.paid", "id": "evt-1", "event_id": "Ev1", "event": {"type": "app_mention"}}


@for_each(
    ("kind", "secret", "topic", "message_id"),
    [
        ("github", PLAIN, "issues", "gh-1"),
        ("gitlab", PLAIN, "Push Hook", "gl-1"),
        ("gitlab", SIGNING, "Push Hook", "msg-1"),  # the one that the signature covers
        ("stripe", PLAIN, "charge.paid", "evt-1"),
        ("standard", SIGNING, "charge.paid", "msg-1"),
        ("slack", PLAIN, "app_mention", "Ev1"),
        ("bearer", PLAIN, None, None),
    ],
)
def test_each_sender_has_its_places(kind: str, secret: str, topic: str | None, message_id: str | None) -> None:
    hook = Hook.read({"hook_id": "h", "verifier": {"kind": kind}}).with_secret(secret)
    mapped = map_event(hook, {"body": BODY, "headers": HEADERS, "query": {}})
    assert (mapped.type, mapped.topic, mapped.message_id) == ("webhook.received", topic, message_id)


def test_a_route_chooses_its_own_places() -> None:
    body = {"hook_id": "h", "verifier": {"kind": "github"}, "dedupe": "{body.id}", "event": {"topic": "{body.type}"}}
    mapped = map_event(Hook.read(body), {"body": BODY, "headers": HEADERS, "query": {}})
    assert (mapped.topic, mapped.message_id) == ("charge.paid", "evt-1")


@for_each("body", [None, [], "text", 7, {}, {"event": None}, {"event": []}, {"event": {"type": {"a": 1}}}])
def test_any_body_becomes_an_event(body: Any) -> None:
    event = {"text": "{body.a.b.c}", "actor": "{body.event.type.x|nobody}", "data": {"all": "{body}"}}
    hook = Hook.read({"hook_id": "h", "verifier": {"kind": "slack"}, "event": event})
    mapped = map_event(hook, {"body": body, "headers": {}, "query": {}})
    assert (mapped.text, mapped.actor, mapped.data) == (None, "nobody", {"all": body})


def test_only_the_handshakes_of_the_sender_are_answered() -> None:
    challenge = {"type": "url_verification", "challenge": "c"}
    assert handshake("slack", {}, challenge) == "c"
    assert handshake("slack", {}, {"type": "url_verification", "challenge": 7}) == ""
    assert handshake("github", {}, challenge) is None
    assert handshake("github", {"x-github-event": "ping"}, {}) == "pong"
    assert handshake("gitlab", {"x-github-event": "ping"}, challenge) is None

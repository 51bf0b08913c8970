"""The event of a webhook request: renders the templates of a route. Pure.

Each kind of sender has its own places for the topic and the id of a request.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from bollard.host.hooks.hook import Hook
from bollard.host.hooks.limits import DATA_VALUE_CHARACTERS
from bollard.host.hooks.templates import Values, render_name, render_text, render_value
from bollard.host.hooks.verifier import Kind
from bollard.host.limits import INPUT_TEXT_BYTES
from bollard.protocol import JsonObject, JsonValue

_TOPICS: Final[Mapping[Kind, str]] = {
    "github": "{headers.x-github-event}",
    "gitlab": "{headers.x-gitlab-event}",
    "stripe": "{body.type}",
    "standard": "{body.type}",
    "slack": "{body.event.type}",
}
_IDS: Final[Mapping[Kind, str]] = {
    "github": "{headers.x-github-delivery}",
    "gitlab": "{headers.idempotency-key}",
    "stripe": "{body.id}",
    "standard": "{headers.webhook-id}",
    "slack": "{body.event_id}",
}


class MappedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an event that come from a request. Without an id, the digest of the body is the id."""

    type: str
    topic: str | None
    message_id: str | None
    conversation: str | None = None
    thread: str | None = None
    actor: str | None = None
    actor_name: str | None = None
    text: str | None = None
    data: JsonObject | None = None
    """`None`: the whole body."""


def topic_of(hook: Hook, values: Values) -> str | None:
    return render_name(hook.event.topic or _TOPICS.get(hook.verifier.kind), values)


def map_event(hook: Hook, values: Values) -> MappedEvent:
    event = hook.event
    data: dict[str, JsonValue] | None = None
    if event.data is not None:
        data = {name: render_value(each, values, DATA_VALUE_CHARACTERS) for name, each in event.data.items()}
    return MappedEvent(
        type=render_name(event.type, values) or "webhook.received",
        topic=topic_of(hook, values),
        message_id=render_name(hook.dedupe or _id_template(hook), values),
        conversation=render_name(event.conversation, values),
        thread=render_name(event.thread, values),
        actor=render_name(event.actor, values),
        actor_name=render_name(event.actor_name, values),
        text=None if event.text is None else render_text(event.text, values, INPUT_TEXT_BYTES) or None,
        data=data,
    )


def _id_template(hook: Hook) -> str | None:
    """Where senders of this kind have the id of a request. A signed id is preferred to one that is not."""
    is_standard = hook.verifier.is_standard(hook.secret or "")
    return _IDS.get("standard" if is_standard else hook.verifier.kind)


def handshake(kind: Kind, headers: Mapping[str, str], body: JsonValue) -> str | None:
    """The answer to a request with which a sender tries out a route, and which is no event."""
    if kind == "github" and headers.get("x-github-event") == "ping":
        return "pong"
    if kind == "slack" and isinstance(body, dict) and body.get("type") == "url_verification":
        challenge = body.get("challenge")
        return challenge if isinstance(challenge, str) else ""
    return None

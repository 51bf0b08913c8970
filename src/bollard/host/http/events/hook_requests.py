"""Reads the requests of webhook routes: JSON and forms by their fields, any other payload as an artifact.

Templates see the whole body up to 1 MiB. Of a larger JSON object they see the short values of its first level.
"""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Final, cast
from urllib.parse import parse_qsl

import msgspec

from bollard.host.errors import InvalidRequest
from bollard.host.hooks.hook import Hook
from bollard.host.hooks.limits import FORM_FIELDS
from bollard.host.hooks.mapping import MappedEvent, handshake, map_event
from bollard.host.hooks.templates import Values
from bollard.host.http.answers import BODY_BYTES
from bollard.host.http.events.event_data import EventData, LargeData, is_json, json_data, media_type, summary_of
from bollard.host.http.events.incoming import IncomingEvent, body_data, data_not_json
from bollard.host.http.events.payloads import Payload, Payloads
from bollard.host.runs.event import NewEvent
from bollard.host.scope import Scope
from bollard.protocol import JsonObject, JsonValue
from bollard.wire import FrameError, decode

_FORM: Final = "application/x-www-form-urlencoded"
_SURFACE: Final = "webhook"
_PAYLOAD: Final = "payload"
"""The field of a form that has the whole event as JSON, as GitHub and Slack send it."""
_PROOFS: Final = frozenset({"authorization", "cookie", "proxy-authorization", "x-gitlab-token"})


class HookRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request besides its body. Of these, signatures cover at most an id and a time."""

    headers: Mapping[str, str]
    query: Mapping[str, str]
    traceparent: str | None = None


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A request as its route understands it."""

    mapped: MappedEvent
    data: EventData
    handshake: str | None = None
    """The answer to a request that is no event."""

    def incoming(self, hook: Hook, workspace: str, payload: Payload, request: HookRequest) -> IncomingEvent:
        """The event for the intake. Raises `InvalidRequest`."""
        mapped, data = self.mapped, self.data
        event = NewEvent(
            source=hook.source,
            source_id=mapped.message_id or f"sha256:{payload.sha256 or sha256(payload.held or b'').hexdigest()}",
            event_type=mapped.type,
            source_event_type=mapped.topic,
            scope=Scope(
                workspace=workspace,
                conversation=mapped.conversation,
                thread=mapped.thread,
                actor_type=None if mapped.actor is None else hook.source,
                actor_id=mapped.actor,
            ),
            trigger="webhook",
            surface=_SURFACE,
            text=mapped.text,
            actor_name=mapped.actor_name,
            data=data.values,
            extra={"hook": {"route": hook.hook_id}},
            caller=f"hook:{hook.hook_id}",
            traceparent=request.traceparent,
        )
        return IncomingEvent(event=event, agent=hook.agent, large=data.large)


def through_hook(event: NewEvent, hook: Hook) -> NewEvent:
    """The event as one of the route, for a preview of its routing."""
    scope = event.scope
    actor_type = None if scope.actor_id is None else hook.source
    return replace(event, surface=_SURFACE, scope=msgspec.structs.replace(scope, actor_type=actor_type))


async def read_hook_event(hook: Hook, request: HookRequest, payload: Payload, payloads: Payloads) -> HookEvent:
    """Read a verified request. Raises `InvalidRequest` for a body that is not what its content type says."""
    media = media_type(request.headers.get("content-type"))
    body, data = await _read_body(media, payload, payloads)
    hidden = _PROOFS | {hook.verifier.token_header}
    headers: JsonObject = {name: value for name, value in request.headers.items() if name not in hidden}
    values: Values = {"body": body, "headers": headers, "query": {**request.query}}
    mapped = map_event(hook, values)
    if mapped.data is not None:
        chosen = json_data(mapped.data)
        data = EventData(chosen.values, data.large or chosen.large)
    return HookEvent(mapped=mapped, data=data, handshake=handshake(hook.verifier.kind, request.headers, body))


async def _read_body(media: str, payload: Payload, payloads: Payloads) -> tuple[JsonValue, EventData]:
    """The body for templates, and as the data of an event."""
    held, whole = payload.held, LargeData(None, media or "application/json")
    if held is None or payload.size > BODY_BYTES:
        short = summary_of(await payloads.read(payload)) if is_json(media) else {}
        return short, EventData(short, whole)
    if media == _FORM:
        form = _form(held)
        return form, json_data(form)
    if not held or not is_json(media):
        data = await body_data(media, payload, payloads)
        return data.values, data
    try:
        value = decode(held)
    except FrameError as error:
        # JSON beyond the limits of a worker's frame, such as a long number, is not lost: it becomes an artifact.
        try:
            return msgspec.json.decode(held), EventData(summary_of(held), whole)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise data_not_json(error.detail, error.fault) from error
    data = json_data(value)
    return value, data if data.large is None else EventData(data.values, whole)


def _form(body: bytes) -> JsonObject:
    """The fields of a form; a repeated field is a list. A field `payload` with a JSON object is the body."""
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS, errors="strict")
    except ValueError:
        raise InvalidRequest(
            f"the form is malformed or has more than {FORM_FIELDS} fields",
            reason="hook_form",
            hint="send name=value pairs in UTF-8",
            field="body",
            limit=FORM_FIELDS,
        ) from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    if len(given := fields.get(_PAYLOAD, ())) == 1:
        try:
            value = decode(given[0].encode())
        except (FrameError, UnicodeEncodeError):
            value = None
        if isinstance(value, dict):
            return cast("JsonObject", value)
    return {name: values[0] if len(values) == 1 else [*values] for name, values in fields.items()}

"""Events as programs behind channels send them. Pure.

A program says what happened and where to answer. It chooses no agent: the bindings do. Whatever it calls its source,
the source is the channel; and whoever it names is somebody of the channel, `room:ann`, never a user of the workspace.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace
from pydantic import Field

from bollard.host.channels.channel import ChannelConfig
from bollard.host.errors import HostError, InvalidRequest, PayloadTooLarge
from bollard.host.http.answers import BODY_BYTES
from bollard.host.http.bodies import EventFields, Id, ResolveEvent, native_draft
from bollard.host.http.errors import UnsupportedMedia
from bollard.host.http.events.cloudevents import (
    BATCH,
    STRUCTURED,
    CloudEvent,
    binary_event,
    is_json,
    media_type,
    read_event,
)
from bollard.host.http.events.drafts import Content, Draft, Json, Nothing, Raw, json_content, read_document, summary_of
from bollard.host.http.events.payloads import Payload, Payloads
from bollard.host.limits import EVENT_DATA_BYTES, EVENTS_IN_BATCH
from bollard.host.runs.event import NewEvent, ReplyRoute
from bollard.protocol import JsonObject, JsonValue, TriggerSource
from bollard.wire import FrameError, decode

TRIGGER: Final[TriggerSource] = "platform"
"""Of every event that a channel brings. Its surface is the channel's kind."""


class ChannelEvent(EventFields):
    """`POST /api/v1/channels/{id}/events`."""

    id: Id | None = Field(default=None, description="Otherwise the webhook-id.")
    type: Id = "message.received"
    reply_target: Id | None = Field(default=None, description="Where the answer goes; otherwise the conversation.")


def channel_draft(body: ChannelEvent, channel: ChannelConfig, message_id: str, content: Content) -> Draft:
    """An event in the host's own form."""
    return native_draft(body, channel.channel_id, body.id or message_id, body.type, content)


def route_of(draft: Draft, channel: ChannelConfig, target: str) -> tuple[Draft, ReplyRoute | None]:
    """The event as the channel's own, and the way back; none where the channel only brings events, or nowhere is
    named."""
    if draft.agent is not None:
        raise InvalidRequest(
            "agent: a channel chooses no agent", hint="save a binding with the scope of the channel", field="agent"
        )
    who = None if draft.actor_id is None else channel.channel_id
    own = replace(draft, source=channel.channel_id, bot=draft.bot or channel.bot, actor_type=who)
    place = target or draft.conversation or draft.actor_id
    if channel.url is None or not place:
        return own, None
    able = channel.abilities
    route = ReplyRoute(
        channel=channel.channel_id,
        target=place,
        supports_streaming=able.supports_streaming,
        supports_edit=able.supports_edit,
        supports_reaction=able.supports_reaction,
        max_message_size=able.max_message_size,
    )
    return own, route


def event_through(body: ResolveEvent, channel: ChannelConfig) -> NewEvent:
    """The event that somebody asks about, as it would be if the channel brought it."""
    draft, route = route_of(native_draft(body, body.source, body.id, body.type, Nothing()), channel, "")
    caller = caller_name(channel.channel_id)
    return draft.event(body.data, None, trigger=TRIGGER, surface=channel.kind, reply=route, caller=caller)


def caller_name(channel_id: str) -> str:
    """The channel as the caller of what it brings."""
    return f"channel:{channel_id}"


# Requests that bring events, as drafts: natively, or as CloudEvents in their three forms. What is wrong with one event
# of a batch is said of that event alone.


MEDIA_TYPES: Final = ("application/json", STRUCTURED, BATCH)
Native = Callable[[JsonObject, Content], Draft]
"""Makes a draft of the host's own form: the body without its data, and the data."""


def is_batch(headers: Mapping[str, str]) -> bool:
    return media_type(headers.get("content-type")) == BATCH


def is_native(headers: Mapping[str, str]) -> bool:
    """Whether the event is in the host's own form."""
    cloud = media_type(headers.get("content-type")).startswith("application/cloudevents")
    return not cloud and "ce-specversion" not in headers and "ce-id" not in headers


def check_signed(headers: Mapping[str, str]) -> None:
    """Refuse an event that says something in headers: a signature is over the body alone, so that whoever saw one
    signed request could say anything there, in the name of anybody."""
    if not is_native(headers) and not media_type(headers.get("content-type")).startswith("application/cloudevents"):
        raise UnsupportedMedia(
            "a CloudEvent whose attributes are headers is not taken here: no signature covers them",
            hint=f"send it as {STRUCTURED}",
            field="body",
        )


async def read_one(headers: Mapping[str, str], payload: Payload, payloads: Payloads, native: Native) -> Draft:
    """The event of a request. Raises `HostError`."""
    media = media_type(headers.get("content-type"))
    if is_native(headers):
        document, large = read_document(await payloads.read(payload) or b"{}")
        if large is not None:
            return native(document, Raw(large, "application/json", summary_of(large)))
        return native(document, _object_content(document.pop("data", {})))
    if media == STRUCTURED:
        return read_event(*read_document(await payloads.read(payload))).draft()
    if media.startswith("application/cloudevents"):
        raise UnsupportedMedia(f"{media[:64]} is not read here", hint=f"send {STRUCTURED} or {BATCH}", field="body")
    attributes = binary_event(headers).attributes
    return CloudEvent(attributes=attributes, content=await _body_content(media, payload, payloads)).draft()


async def read_batch(payload: Payload, payloads: Payloads) -> list[Draft | HostError]:
    """The events of a batch, each a draft or what is wrong with it. Raises where the batch itself cannot be read."""
    try:
        items = msgspec.json.decode(await payloads.read(payload), type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(
            f"the body is no JSON array of events: {error}", hint="send a JSON array", field="body"
        ) from error
    if len(items) > EVENTS_IN_BATCH:
        message = f"a batch has at most {EVENTS_IN_BATCH} events"
        raise PayloadTooLarge(message, hint="send several batches", field="body")
    return [_item(bytes(item)) for item in items]


def _item(body: bytes) -> Draft | HostError:
    try:
        return read_event(*read_document(body)).draft()
    except HostError as error:
        return error


def _object_content(data: JsonValue) -> Content:
    if not isinstance(data, dict):
        raise InvalidRequest("data: should be an object", hint="see docs/reference/http.md", field="data")
    return json_content(data)


async def _body_content(media: str, payload: Payload, payloads: Payloads) -> Content:
    """The data of a binary CloudEvent: the body, as its content type says."""
    if not payload.size:
        return Nothing()
    kind = media or "application/json"
    if is_json(media):
        if payload.held is None or payload.size > BODY_BYTES:  # the same wherever it is
            return Raw(None, kind, summary_of(await payloads.read(payload)))
        try:
            value = decode(payload.held)
        except FrameError as error:
            if error.fault in ("nodes", "depth"):
                return Raw(None, kind, summary_of(payload.held))
            raise InvalidRequest(
                f"the body is not JSON: {error.detail}", hint="correct it, or name its content type", field="body"
            ) from error
        return json_content(value)
    if media.startswith("text/") and payload.held is not None and payload.size <= EVENT_DATA_BYTES // 2:
        try:
            return Json({"text": payload.held.decode()})
        except UnicodeDecodeError:
            pass  # another encoding: the runner gets the bytes
    return Raw(None, kind)

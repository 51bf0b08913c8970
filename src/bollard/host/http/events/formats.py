"""Reads events from requests, in the native form or as CloudEvents, and turns those of channels into the channel's own.

A channel does not choose an agent: the bindings do. The source of its events is always the channel, and its actors are
actors of the channel (`room:ann`), never users of the workspace. Pure, except for reading payloads.
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
"""The trigger of every event of a channel. Its surface is the channel's kind."""


class ChannelEvent(EventFields):
    """`POST /api/v1/channels/{id}/events`."""

    id: Id | None = Field(default=None, description="Otherwise the webhook-id.")
    type: Id = "message.received"
    reply_target: Id | None = Field(default=None, description="Where the answer goes; otherwise the conversation.")


def channel_draft(body: ChannelEvent, channel: ChannelConfig, message_id: str, content: Content) -> Draft:
    """The draft of an event in the native form."""
    return native_draft(body, channel.channel_id, body.id or message_id, body.type, content)


def route_of(draft: Draft, channel: ChannelConfig, target: str) -> tuple[Draft, ReplyRoute | None]:
    """The event as the channel's own, and its reply route: `None` if the channel only receives, or there is no
    target."""
    if draft.agent is not None:
        raise InvalidRequest(
            "agent: an event of a channel cannot name an agent",
            reason="channel_agent",
            hint="save a binding with the scope of the channel",
            field="agent",
        )
    actor_type = None if draft.actor_id is None else channel.channel_id
    own = replace(draft, source=channel.channel_id, bot=draft.bot or channel.bot, actor_type=actor_type)
    place = target or draft.conversation or draft.actor_id
    if channel.url is None or not place:
        return own, None
    abilities = channel.abilities
    route = ReplyRoute(
        channel=channel.channel_id,
        target=place,
        supports_streaming=abilities.supports_streaming,
        supports_edit=abilities.supports_edit,
        supports_reaction=abilities.supports_reaction,
        max_message_size=abilities.max_message_size,
    )
    return own, route


def event_through(body: ResolveEvent, channel: ChannelConfig) -> NewEvent:
    """The event of a dry run, as if it came from the channel."""
    draft, route = route_of(native_draft(body, body.source, body.id, body.type, Nothing()), channel, "")
    caller = caller_name(channel.channel_id)
    return draft.event(body.data, None, trigger=TRIGGER, surface=channel.kind, reply=route, caller=caller)


def caller_name(channel_id: str) -> str:
    """The name of the channel as a caller."""
    return f"channel:{channel_id}"


# --- reading events ---

MEDIA_TYPES: Final = ("application/json", STRUCTURED, BATCH)
Native = Callable[[JsonObject, Content], Draft]
"""Makes a draft of the native form, from the body without its data, and the data."""


def is_batch(headers: Mapping[str, str]) -> bool:
    return media_type(headers.get("content-type")) == BATCH


def is_native(headers: Mapping[str, str]) -> bool:
    """Whether the event is in the native form."""
    is_cloudevent = media_type(headers.get("content-type")).startswith("application/cloudevents")
    return not is_cloudevent and "ce-specversion" not in headers and "ce-id" not in headers


def check_signed(headers: Mapping[str, str]) -> None:
    """Refuse an event with attributes in headers. A signature covers the body only, so an attacker who saw one signed
    request could replay it with other attributes."""
    if not is_native(headers) and not media_type(headers.get("content-type")).startswith("application/cloudevents"):
        raise UnsupportedMedia(
            "channels do not accept CloudEvents with attributes in headers: the signature does not cover them",
            reason="unsigned_attributes",
            hint=f"send it as {STRUCTURED}",
            field="body",
            media=STRUCTURED,
        )


async def read_one(headers: Mapping[str, str], payload: Payload, payloads: Payloads, native: Native) -> Draft:
    """Read the event of a request. Raises `HostError`."""
    media = media_type(headers.get("content-type"))
    if is_native(headers):
        document, large = read_document(await payloads.read(payload) or b"{}")
        if large is not None:
            return native(document, Raw(large, "application/json", summary_of(large)))
        return native(document, _object_content(document.pop("data", {})))
    if media == STRUCTURED:
        return read_event(*read_document(await payloads.read(payload))).draft()
    if media.startswith("application/cloudevents"):
        raise UnsupportedMedia(
            f"{media[:64]} is not supported",
            reason="cloudevents_format",
            hint=f"send {STRUCTURED} or {BATCH}",
            field="body",
            media=media[:64],
        )
    attributes = binary_event(headers).attributes
    return CloudEvent(attributes=attributes, content=await _body_content(media, payload, payloads)).draft()


async def read_batch(payload: Payload, payloads: Payloads) -> list[Draft | HostError]:
    """Read a batch: a draft or an error for each event. Raises if the batch itself is invalid."""
    try:
        items = msgspec.json.decode(await payloads.read(payload), type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(
            f"the body is not a JSON array of events: {error}",
            reason="not_an_array",
            hint="send a JSON array",
            field="body",
            problem=str(error),
        ) from error
    if len(items) > EVENTS_IN_BATCH:
        raise PayloadTooLarge(
            f"a batch has at most {EVENTS_IN_BATCH} events",
            reason="batch",
            hint="send several batches",
            field="body",
            limit=EVENTS_IN_BATCH,
        )
    return [_item(bytes(item)) for item in items]


def _item(body: bytes) -> Draft | HostError:
    try:
        return read_event(*read_document(body)).draft()
    except HostError as error:
        return error


def _object_content(data: JsonValue) -> Content:
    if not isinstance(data, dict):
        raise InvalidRequest(
            "data: should be an object", reason="data_object", hint="see docs/reference/http.md", field="data"
        )
    return json_content(data)


async def _body_content(media: str, payload: Payload, payloads: Payloads) -> Content:
    """The data of a binary CloudEvent: the body, read by its content type."""
    if not payload.size:
        return Nothing()
    kind = media or "application/json"
    if is_json(media):
        if payload.held is None or payload.size > BODY_BYTES:
            return Raw(None, kind, summary_of(await payloads.read(payload)))
        try:
            value = decode(payload.held)
        except FrameError as error:
            if error.fault in ("nodes", "depth"):
                return Raw(None, kind, summary_of(payload.held))
            raise InvalidRequest(
                f"the body is not JSON: {error.detail}",
                reason="data_not_json",
                hint="correct it, or send its Content-Type",
                field="body",
                problem=error.detail,
            ) from error
        return json_content(value)
    if media.startswith("text/") and payload.held is not None and payload.size <= EVENT_DATA_BYTES // 2:
        try:
            return Json({"text": payload.held.decode()})
        except UnicodeDecodeError:
            pass  # not UTF-8: the runner gets the bytes
    return Raw(None, kind)

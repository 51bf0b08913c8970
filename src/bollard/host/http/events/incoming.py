"""Reads the events of requests, in the native form or as CloudEvents.

A channel does not choose an agent: the bindings do. The source of its events is always the channel, and its actors are
actors of the channel (`room:ann`), never users of the workspace. Pure, except for reading payloads.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Final, Literal

import msgspec
from pydantic import Field
from starlette.requests import Request

from bollard.host.channels.channel import SavedChannel, reply_route
from bollard.host.channels.lazy_contents import CHANNEL_CALLER
from bollard.host.errors import HostError, InvalidRequest, PayloadTooLarge, caused_by
from bollard.host.http.answers import BODY_BYTES, header_of, read_body
from bollard.host.http.bodies import ChatFields, Id, MessageParts, PostEvent, chosen_id, parsed
from bollard.host.http.errors import UnsupportedMedia
from bollard.host.http.events.cloudevents import (
    BATCH,
    MESSAGE,
    STRUCTURED,
    CloudEvent,
    header_attributes,
    structured_event,
)
from bollard.host.http.events.event_data import (
    SIZE_FAULTS,
    EventData,
    LargeData,
    is_json,
    json_data,
    large_data,
    media_type,
    read_document,
    split_large_data,
    summary_of,
)
from bollard.host.http.events.file_handles import FileHandle, check_handles
from bollard.host.http.events.payloads import MESSAGE_HINT, Payload, Payloads
from bollard.host.limits import ATTACHMENTS, EVENT_DATA_BYTES, EVENTS_IN_BATCH
from bollard.host.runs.event import NewEvent
from bollard.protocol import AgentInput, JsonObject, JsonValue, TextContent
from bollard.wire import FrameError, decode

MEDIA_TYPES: Final = ("application/json", STRUCTURED, BATCH)


_Handles = Annotated[
    tuple[FileHandle, ...],
    Field(default=(), max_length=ATTACHMENTS, description="Files that the host fetches when they are read."),
]


class ChannelParts(MessageParts):
    """The contents of a message of a channel in the data of a CloudEvent."""

    files: _Handles


class ChannelEvent(ChatFields):
    """`POST /api/v1/channels/{id}/events`."""

    id: Id | None = Field(default=None, description="Otherwise the webhook-id.")
    type: Id = "message.received"
    reply_target: Id | None = Field(default=None, description="Where the answer goes; otherwise the conversation.")
    files: _Handles


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """The sender of a request: a caller of the API, or the program behind a channel."""

    workspace: str
    caller: str
    message_id: str | None
    """The `Idempotency-Key` of a caller, the `webhook-id` of a channel."""
    traceparent: str | None = None
    channel: SavedChannel | None = None

    @property
    def parts(self) -> frozenset[str]:
        """The fields in the data of a CloudEvent that are the contents of its message."""
        return frozenset((MessageParts if self.channel is None else ChannelParts).model_fields)


class IncomingEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A valid event, and what its sender wants with it."""

    event: NewEvent
    """Without its contents: files become artifacts first."""
    message: AgentInput = msgspec.field(default_factory=AgentInput)
    """The contents and attachments of the event."""
    handles: tuple[FileHandle, ...] = ()
    """Files that the channel keeps until they are read."""
    agent: str | None = None
    expires_ms: int | None = None
    large: LargeData | None = None
    """Data that must be stored before the event. `event.data` has its short values."""

    @property
    def spoken(self) -> NewEvent:
        """The event with the texts in its contents, for the rules of its channel."""
        texts = (each for each in self.message.contents if isinstance(each, TextContent))
        return replace(self.event, contents=tuple(text.to_wire() for text in texts))

    def admitted(self, event: NewEvent, agent: str | None) -> "IncomingEvent":
        """What goes on of it: `event` has its texts, which may be masked."""
        texts = (TextContent.from_wire(each) for each in event.contents)
        contents = tuple(next(texts) if isinstance(each, TextContent) else each for each in self.message.contents)
        message = self.message.model_copy(update={"contents": contents})
        return msgspec.structs.replace(self, event=replace(event, contents=()), message=message, agent=agent)


class BatchItem(msgspec.Struct, frozen=True):
    """One event of a batch, or its error, with source and id as far as they are known."""

    identity: JsonObject
    event: IncomingEvent | HostError


class EventFormat(msgspec.Struct, frozen=True):
    """The form of the events in a request. `media` is the type of its body, without parameters."""

    kind: Literal["native", "structured", "batch", "binary", "unknown"]
    media: str


def format_of(headers: Mapping[str, str]) -> EventFormat:
    media = media_type(headers.get("content-type"))
    if media.startswith("application/cloudevents"):
        return EventFormat("batch" if media == BATCH else "structured" if media == STRUCTURED else "unknown", media)
    return EventFormat("binary" if "ce-specversion" in headers or "ce-id" in headers else "native", media)


def check_signed(form: EventFormat) -> None:
    """Refuse an event with attributes in headers. A signature covers the body only, so an attacker who saw one signed
    request could replay it with other attributes."""
    if form.kind == "binary":
        raise UnsupportedMedia(
            "channels do not accept CloudEvents with attributes in headers: the signature does not cover them",
            reason="unsigned_attributes",
            hint=f"send it as {STRUCTURED}",
            field="body",
            media=STRUCTURED,
        )


async def read_one(
    form: EventFormat, headers: Mapping[str, str], payload: Payload, payloads: Payloads, sender: Sender
) -> IncomingEvent:
    """Read the event of a request. Raises `HostError`."""
    match form.kind:
        case "native":
            document, large = await _document(await payloads.read(payload) or b"{}")
            if large is not None:
                return _native(document, large_data(large, "application/json"), sender)
            return _native(document, _object_data(document.pop("data", {})), sender)
        case "structured":
            document, large = await _document(await payloads.read(payload))
            return _cloud(structured_event(document, large, parts=sender.parts), sender)
        case "binary":
            attributes = header_attributes(headers)
            if attributes["type"] == MESSAGE and is_json(form.media):
                body = await payloads.read(payload)
                parts, data = await asyncio.to_thread(split_large_data, body, form.media, sender.parts)
                if parts:
                    return _cloud(CloudEvent(attributes=attributes, data=data, parts=parts), sender)
            return _cloud(
                CloudEvent(attributes=attributes, data=await body_data(form.media, payload, payloads)), sender
            )
        case "batch" | "unknown":
            raise UnsupportedMedia(
                f"{form.media[:64]} is not supported",
                reason="cloudevents_format",
                hint=f"send {STRUCTURED} or {BATCH}",
                field="body",
                media=form.media[:64],
            )


async def _document(body: bytes) -> tuple[JsonObject, bytes | None]:
    return read_document(body) if len(body) <= BODY_BYTES else await asyncio.to_thread(read_document, body)


async def read_message(request: Request, payloads: Payloads) -> JsonObject:
    """The body of a message to an agent, which may have files inside. Raises `HostError`."""
    length = header_of(request.scope, b"content-length") or ""
    if length.isascii() and length.isdigit() and int(length) <= BODY_BYTES:
        return await read_body(request)
    async with payloads.received(request) as payload:
        document, large = await _document(await payloads.read(payload))
    if large is not None:
        raise PayloadTooLarge(
            f"data: is larger than {BODY_BYTES} bytes",
            reason="message_data",
            hint=MESSAGE_HINT,
            field="data",
            max_bytes=BODY_BYTES,
        )
    return document


async def read_batch(payload: Payload, payloads: Payloads, sender: Sender) -> list[BatchItem]:
    """Read a batch. Raises if the batch itself is invalid."""
    try:
        items = msgspec.json.decode(await payloads.read(payload), type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(
            f"the body is not a JSON array of events: {error}",
            reason="not_an_array",
            hint="send a JSON array",
            field="body",
            **caused_by(error),
        ) from error
    if len(items) > EVENTS_IN_BATCH:
        raise PayloadTooLarge(
            f"a batch has at most {EVENTS_IN_BATCH} events",
            reason="batch",
            hint="send several batches",
            field="body",
            limit=EVENTS_IN_BATCH,
        )
    return [_item(bytes(item), sender) for item in items]


def _item(body: bytes, sender: Sender) -> BatchItem:
    identity: JsonObject = {}
    try:
        cloud = structured_event(*read_document(body), parts=sender.parts)
        identity = {"source": cloud.source, "id": cloud.id}
        return BatchItem(identity, _cloud(cloud, sender))
    except HostError as error:
        return BatchItem(identity, error)


def _native(document: JsonObject, data: EventData, sender: Sender) -> IncomingEvent:
    if sender.channel is None:
        body: PostEvent | ChannelEvent = parsed(PostEvent, document)
        source, source_id, target = body.source, chosen_id(sender.message_id, body.id), ""
    else:
        body = parsed(ChannelEvent, document)
        source, source_id, target = sender.channel.channel_id, body.id or sender.message_id, body.reply_target or ""
    if source_id is None:
        hint = "give the event an id, so that a repeat is recognised"
        raise InvalidRequest("id: this field is needed", reason="event_id_missing", hint=hint, field="id")
    event = body.event(
        source,
        source_id,
        body.type,
        body.scope(sender.workspace),
        data=data.values,
        caller=sender.caller,
        traceparent=sender.traceparent,
    )
    if isinstance(body, ChannelEvent):
        event = replace(event, facts=body.facts)
    handles = body.files if isinstance(body, ChannelEvent) else ()
    check_handles(handles, sender.channel)
    return IncomingEvent(
        event=_sent_by(event, sender, body.agent, target),
        message=body.input,
        handles=handles,
        agent=body.agent,
        large=data.large,
    )


def _cloud(cloud: CloudEvent, sender: Sender) -> IncomingEvent:
    event = cloud.event(sender.workspace, caller=sender.caller, traceparent=sender.traceparent)
    parts = parsed(MessageParts if sender.channel is None else ChannelParts, cloud.parts)
    handles = parts.files if isinstance(parts, ChannelParts) else ()
    check_handles(handles, sender.channel)
    agent = cloud.text("agent")
    return IncomingEvent(
        event=_sent_by(event, sender, agent, ""),
        message=parts.input,
        handles=handles,
        agent=agent,
        expires_ms=cloud.expires_ms,
        large=cloud.data.large,
    )


def _sent_by(event: NewEvent, sender: Sender, agent: str | None, target: str) -> NewEvent:
    if sender.channel is None:
        return event
    if agent is not None:
        raise InvalidRequest(
            "agent: an event of a channel cannot name an agent",
            reason="channel_agent",
            hint="save a binding with the scope of the channel",
            field="agent",
        )
    return through_channel(event, sender.channel, target)


def through_channel(event: NewEvent, channel: SavedChannel, target: str = "") -> NewEvent:
    """The event as the channel's own, with its reply route. There is none if the channel only receives, or if nothing
    names a target."""
    scope, route = event.scope, None
    place = target or scope.conversation or scope.actor_id
    if channel.url is not None and place:
        route = reply_route(channel.channel_id, channel.abilities, place)
    return replace(
        event,
        source=channel.channel_id,
        scope=msgspec.structs.replace(
            scope, bot=scope.bot or channel.bot, actor_type=None if scope.actor_id is None else channel.channel_id
        ),
        trigger="platform",
        surface=channel.kind,
        reply=route,
        caller=caller_name(channel.channel_id),
    )


def caller_name(channel_id: str) -> str:
    """The name of the channel as a caller."""
    return f"{CHANNEL_CALLER}{channel_id}"


def _object_data(data: JsonValue) -> EventData:
    if not isinstance(data, dict):
        raise InvalidRequest(
            "data: should be an object", reason="data_object", hint="see docs/reference/http.md", field="data"
        )
    return json_data(data)


async def body_data(media: str, payload: Payload, payloads: Payloads) -> EventData:
    """The data of an event that is the whole body, read by its content type."""
    if not payload.size:
        return EventData()
    whole = LargeData(None, media or "application/json")
    if is_json(media):
        if payload.held is None or payload.size > BODY_BYTES:
            return EventData(summary_of(await payloads.read(payload)), whole)
        try:
            value = decode(payload.held)
        except FrameError as error:
            if error.fault in SIZE_FAULTS:
                return EventData(summary_of(payload.held), whole)
            raise data_not_json(error.detail, error.fault) from error
        return json_data(value)
    if media.startswith("text/") and payload.held is not None and payload.size <= EVENT_DATA_BYTES // 2:
        try:
            return EventData({"text": payload.held.decode()})
        except UnicodeDecodeError:
            pass  # not UTF-8: the runner gets the bytes
    return EventData(large=whole)


def data_not_json(problem: str, fault: str) -> InvalidRequest:
    return InvalidRequest(
        f"the body is not JSON: {problem}",
        reason="data_not_json",
        hint="correct it, or send its Content-Type",
        field="body",
        problem=problem,
        problem_type=f"json.{fault}",
    )

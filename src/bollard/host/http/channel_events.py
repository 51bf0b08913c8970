"""Events as programs behind channels send them. Pure.

A program says what happened and where to answer. It chooses no agent: the bindings do. Whatever it calls its source,
the source is the channel; and whoever it names is somebody of the channel, `room:ann`, never a user of the workspace.
"""

from typing import Final

from msgspec.structs import replace
from pydantic import Field

from bollard.host.channels.saving import ChannelConfig
from bollard.host.errors import InvalidRequest
from bollard.host.http.drafts import Content, Draft, Nothing
from bollard.host.http.requests import EventFields, Id, ResolveEvent, native_draft
from bollard.host.runs.event import NewEvent
from bollard.host.runs.reply import ReplyRoute
from bollard.protocol import TriggerSource

__all__ = ["TRIGGER", "ChannelEvent", "channel_draft", "event_through", "route_of"]

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
    return draft.event(body.data, None, trigger=TRIGGER, surface=channel.kind, reply=route)

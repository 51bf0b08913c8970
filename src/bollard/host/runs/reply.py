"""Where an answer goes: what a channel says of itself when an event comes through it, and what the agent's policy makes
of that. Pure; sending is not done here."""

from typing import Final

import msgspec

from bollard.host.agents.policies import DeliveryPolicy
from bollard.host.log.facts import DeliverTo
from bollard.protocol import JsonObject, TriggerSource

__all__ = ["ReplyRoute", "deliver_to", "delivery_context"]

_READ_ELSEWHERE: Final[frozenset[TriggerSource]] = frozenset({"api", "webui"})
"""Whoever triggers a run in this way reads its stream: the agent's own target is not for them."""


class ReplyRoute(msgspec.Struct, frozen=True, kw_only=True):
    """The channel that an event came through, as it was then. Kept with the event: a run never looks a channel up."""

    channel: str
    target: str
    """Whom or where the channel should send an answer; the channel's own word for it."""
    supports_streaming: bool = False
    supports_edit: bool = False
    supports_reaction: bool = False
    max_message_size: int | None = None


def deliver_to(reply: ReplyRoute | None, trigger: TriggerSource, policy: DeliveryPolicy) -> DeliverTo | None:
    """Where the messages of a run go, if they go anywhere but to those who read it."""
    size = policy.max_message_size
    if reply is not None:
        if not policy.reply:
            return None
        streaming = policy.streaming and reply.supports_streaming
        sizes = [each for each in (size, reply.max_message_size) if each is not None]
        return DeliverTo(
            channel=reply.channel,
            target=reply.target,
            streaming=streaming,
            max_message_size=min(sizes) if sizes else None,
        )
    if policy.target is None or trigger in _READ_ELSEWHERE:
        return None
    channel, _, target = policy.target.partition(":")
    return DeliverTo(channel=channel, target=target, streaming=policy.streaming, max_message_size=size)


def delivery_context(
    reply: ReplyRoute | None, surface: str, policy: DeliveryPolicy, goes_to: DeliverTo | None
) -> JsonObject:
    """What a runner is told of it. Absent is written as absent."""
    told: JsonObject = {"surface": surface, "supports_streaming": policy.streaming}
    if reply is not None:
        told["supports_streaming"] = policy.streaming and reply.supports_streaming
        told["supports_edit"] = reply.supports_edit
        told["supports_reaction"] = reply.supports_reaction
    if goes_to is not None:
        told["reply_target"] = {"channel": goes_to.channel, "target": goes_to.target}
        if goes_to.max_message_size is not None:
            told["max_message_size"] = goes_to.max_message_size
    return told

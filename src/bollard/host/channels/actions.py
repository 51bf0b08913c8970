"""Actions of channels as capabilities: `channel:NAME/message.send`, and those that the channel declares.

An action bypasses the outbox: the caller waits for the outcome, and the executor records the call before and never
repeats it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bollard.host.capabilities.capability import Capability, CapabilityLimits, Effects
from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.channels.channel import (
    Acted,
    ActionOrder,
    Channel,
    Delivered,
    DeliveryUnknown,
    NotDelivered,
    Outgoing,
)
from bollard.host.channels.outgoing_filter import screened
from bollard.host.channels.platform_actions import PLATFORM_ACTIONS, SHOWN_TEXTS, ActionKind
from bollard.host.channels.registry import ChannelRepository
from bollard.host.errors import OutcomeUnknown, ToolFailed
from bollard.host.limits import CHANNEL_ANSWER_S
from bollard.host.reason import Why, why
from bollard.protocol import JsonObject
from bollard.protocol.platform_actions import ACTION_FORMS, ID, MESSAGE_CHARACTERS
from bollard.wire import encode

SEND: Final = "message.send"
EDIT: Final = "message.edit"


class ChannelActions:
    """Implements `CapabilitySource` and `Adapter`."""

    def __init__(self, channels: ChannelRepository) -> None:
        self._channels = channels

    @property
    def adapter(self) -> "ChannelActions":
        return self

    @property
    def revision(self) -> int:
        return self._channels.revision

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        actions: list[Capability] = []
        for channel_id in self._channels.ids(workspace):
            channel = self._channels.sender(workspace, channel_id)
            if channel is not None:
                actions += _capabilities(channel_id, channel)
        return actions

    def absent(self, workspace: str) -> Mapping[str, Why]:
        return {
            f"channel:{channel_id}/": why(
                f"channel {channel_id} is switched off or cannot send", "channel.off", channel=channel_id
            )
            for channel_id in self._channels.ids(workspace)
            if self._channels.sender(workspace, channel_id) is None
        }

    async def invoke(self, order: CallOrder) -> CallResult:
        channel_id = order.capability.id.removeprefix("channel:").partition("/")[0]
        channel = self._channels.sender(order.context.workspace, channel_id)
        if channel is None:
            message, hint = f"channel {channel_id} does not exist any more", "`bollard channels` lists them"
            raise ToolFailed(message, reason="channel_gone", hint=hint, channel=channel_id)
        arguments = _screened(channel_id, channel, order.arguments)
        if order.capability.name in (SEND, EDIT):
            return await _send(channel_id, channel, order, arguments)
        return await _act(channel_id, channel, order, arguments)


async def _send(channel_id: str, channel: Channel, order: CallOrder, arguments: JsonObject) -> CallResult:
    outgoing = Outgoing(
        key=_key(order),
        target=str(arguments["target"]),
        text=str(arguments["text"]),
        run_id=order.context.run_id,
        event_id="",
        edit_of=str(arguments["message"]) if order.capability.name == EDIT else None,
    )
    outcome = await channel.send(outgoing)
    if isinstance(outcome, Delivered):
        structured: JsonObject = {"channel": channel_id, "message": outcome.message}
        return CallResult(content=(_text(f"sent to {channel_id}"),), structured=structured)
    if isinstance(outcome, NotDelivered):
        raise ToolFailed(
            f"channel {channel_id} rejected the message: {outcome.reason}",
            reason="channel_rejected",
            hint="check the channel",
            channel=channel_id,
            problem=outcome.reason,
        )
    raise OutcomeUnknown(
        f"channel {channel_id} did not confirm the message: {outcome.reason}",
        reason="channel_unconfirmed",
        hint="check whether the message arrived before you send it again",
        channel=channel_id,
        problem=outcome.reason,
    )


async def _act(channel_id: str, channel: Channel, order: CallOrder, arguments: JsonObject) -> CallResult:
    name = order.capability.name
    action = ActionOrder(
        key=_key(order), action=name, arguments=arguments, run_id=order.context.run_id, call_id=order.call_id
    )
    outcome = await channel.act(action)
    match outcome:
        case Acted(result):
            shown = f"{name}: done" if result is None else encode(result).decode()
            return CallResult(content=(_text(shown),), structured=result)
        case DeliveryUnknown(reason) if order.capability.effects != "none":
            raise OutcomeUnknown(
                f"channel {channel_id} did not confirm {name}: {reason}",
                reason="channel_action_unconfirmed",
                hint="check whether the action took effect before you request it again",
                channel=channel_id,
                action=name,
                problem=reason,
            )
        case NotDelivered(reason) | DeliveryUnknown(reason):
            raise ToolFailed(
                f"channel {channel_id} did not carry out {name}: {reason}",
                reason="channel_action_failed",
                hint="check the arguments, and the program behind the channel",
                channel=channel_id,
                action=name,
                problem=reason,
            )


def _key(order: CallOrder) -> str:
    return f"{order.context.run_id}.{order.call_id}"


def _screened(channel_id: str, channel: Channel, arguments: JsonObject) -> JsonObject:
    """The arguments with texts that may leave. Raises `ToolFailed` for a text that the content filter blocks."""
    shown = {name: screened(channel, str(arguments[name])) for name in SHOWN_TEXTS if name in arguments}
    if any(each.withheld for each in shown.values()):
        raise ToolFailed(
            f"the content filter of channel {channel_id} blocks the text",
            reason="channel_filtered",
            hint="use other words",
            channel=channel_id,
        )
    return {**arguments, **{name: each.text for name, each in shown.items()}}


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


# --- capabilities ---


def _capabilities(channel_id: str, channel: Channel) -> list[Capability]:
    most = min(channel.abilities.max_message_size or MESSAGE_CHARACTERS, MESSAGE_CHARACTERS)
    text: JsonObject = {"type": "string", "minLength": 1, "maxLength": most}
    effects: Effects = "idempotent" if channel.abilities.dedupe == "native" else "at_most_once"
    sent = {"target": ID, "text": text}
    kinds = {SEND: ActionKind(description=ACTION_FORMS[SEND].description, risk="medium", required=sent)}
    if channel.abilities.supports_edit:
        edited = {"target": ID, "message": ID, "text": text}
        kinds[EDIT] = ActionKind(description=ACTION_FORMS[EDIT].description, risk="medium", required=edited)
    kinds |= {name: PLATFORM_ACTIONS[name] for name in channel.actions}
    return [
        _capability(channel_id, name, kind, "none" if kind.reads else "idempotent" if name == EDIT else effects)
        for name, kind in kinds.items()
    ]


def _capability(channel_id: str, name: str, kind: ActionKind, effects: Effects) -> Capability:
    return Capability(
        id=f"channel:{channel_id}/{name}",
        name=name,
        kind="channel",
        description=f"{kind.description} through the channel {channel_id}.",
        input_schema=kind.input_schema,
        risk=kind.risk,
        flow=kind.flow,
        effects=effects,
        limits=CapabilityLimits(timeout_s=2 * CHANNEL_ANSWER_S),
        source=f"channel:{channel_id}",
    )

"""Actions of channels as capabilities, `channel:NAME/message.send`.

An action bypasses the outbox: the caller waits for the outcome, and the executor records the call before and never
repeats it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bollard.host.capabilities.capability import Capability, CapabilityLimits, Flow
from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.channels.channel import Abilities, Delivered, NotDelivered, Outgoing, SendOutcome
from bollard.host.channels.registry import ChannelRepository
from bollard.host.errors import OutcomeUnknown, ToolFailed
from bollard.host.limits import CHANNEL_ANSWER_S
from bollard.host.reason import Why, why
from bollard.protocol import JsonObject

SEND: Final = "message.send"
EDIT: Final = "message.edit"
_TEXT_CHARACTERS: Final = 16_000
"""The longest message, unless the channel allows less."""
_ID_CHARACTERS: Final = 256
_FLOW: Final = Flow(reads_private=False, brings_untrusted=False, sends_out=True)


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
                actions += _actions(channel_id, channel.abilities)
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
        arguments = order.arguments
        channel_id = order.capability.id.removeprefix("channel:").partition("/")[0]
        channel = self._channels.sender(order.context.workspace, channel_id)
        if channel is None:
            message, hint = f"channel {channel_id} does not exist any more", "`bollard channels` lists them"
            raise ToolFailed(message, reason="channel_gone", hint=hint, channel=channel_id)
        outgoing = Outgoing(
            key=f"{order.context.run_id}.{order.call_id}",
            target=str(arguments["target"]),
            text=str(arguments["text"]),
            run_id=order.context.run_id,
            event_id="",
            edit_of=str(arguments["message"]) if order.capability.name == EDIT else None,
        )
        return _call_result(channel_id, await channel.send(outgoing))


def _call_result(channel_id: str, outcome: SendOutcome) -> CallResult:
    if isinstance(outcome, Delivered):
        structured: JsonObject = {"channel": channel_id, "message": outcome.message}
        return CallResult(content=({"type": "text", "text": f"sent to {channel_id}"},), structured=structured)
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


def _actions(channel_id: str, abilities: Abilities) -> list[Capability]:
    most = min(abilities.max_message_size or _TEXT_CHARACTERS, _TEXT_CHARACTERS)
    target: JsonObject = {"type": "string", "minLength": 1, "maxLength": _ID_CHARACTERS}
    text: JsonObject = {"type": "string", "minLength": 1, "maxLength": most}
    actions = [_action(channel_id, SEND, "Send a message", abilities, target=target, text=text)]
    if abilities.supports_edit:
        edited = _action(
            channel_id, EDIT, "Give a message another text", abilities, target=target, message=target, text=text
        )
        actions.append(edited)
    return actions


def _action(channel_id: str, name: str, what: str, abilities: Abilities, **fields: JsonObject) -> Capability:
    return Capability(
        id=f"channel:{channel_id}/{name}",
        name=name,
        kind="channel",
        description=f"{what} through the channel {channel_id}.",
        input_schema={"type": "object", "properties": {**fields}, "required": [*fields], "additionalProperties": False},
        risk="medium",
        flow=_FLOW,
        effects="idempotent" if abilities.dedupe == "native" or name == EDIT else "at_most_once",
        limits=CapabilityLimits(timeout_s=2 * CHANNEL_ANSWER_S),
        source=f"channel:{channel_id}",
    )

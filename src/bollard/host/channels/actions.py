"""What a run can do on a platform beside answering: actions of channels, `channel:NAME/message.send`.

An action goes out at once and not through the outbox: whoever asks waits for what came of it, it was written down
before, and the same call is never made twice.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bollard.host.capabilities.capability import Capability, CapabilityLimits, Flow
from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.channels.channel import ChannelAbilities, Delivered, NotDelivered, Outgoing, SendOutcome
from bollard.host.channels.registry import ChannelRepository
from bollard.host.errors import OutcomeUnknown, ToolFailed
from bollard.host.limits import CHANNEL_ANSWER_S
from bollard.protocol import JsonObject

SEND: Final = "message.send"
EDIT: Final = "message.edit"
_TEXT_CHARACTERS: Final = 16_000
"""Of one message, where the channel does not say less."""
_ID_CHARACTERS: Final = 256
_FLOW: Final = Flow(reads_private=False, brings_untrusted=False, sends_out=True)


class ChannelActions:
    """Implements `CapabilitySource` and `Adapter`."""

    def __init__(self, book: ChannelRepository) -> None:
        self._book = book

    @property
    def adapter(self) -> "ChannelActions":
        return self

    @property
    def revision(self) -> int:
        return self._book.revision

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        found: list[Capability] = []
        for channel_id in self._book.ids(workspace):
            channel = self._book.sender(workspace, channel_id)
            if channel is not None:
                found += _actions(channel_id, channel.abilities)
        return found

    def absent(self, workspace: str) -> Mapping[str, str]:
        return {
            f"channel:{channel_id}/": f"the channel {channel_id} is switched off, or has nowhere to send to"
            for channel_id in self._book.ids(workspace)
            if self._book.sender(workspace, channel_id) is None
        }

    async def invoke(self, order: CallOrder) -> CallResult:
        said = order.arguments
        channel_id = order.capability.id.removeprefix("channel:").partition("/")[0]
        channel = self._book.sender(order.context.workspace, channel_id)
        if channel is None:
            raise ToolFailed(f"the channel {channel_id} is not there any more", hint="`bollard channels` lists them")
        outgoing = Outgoing(
            key=f"{order.context.run_id}.{order.call_id}",
            target=str(said["target"]),
            text=str(said["text"]),
            run_id=order.context.run_id,
            event_id="",
            edit_of=str(said["message"]) if order.capability.name == EDIT else None,
        )
        return _returned(channel_id, await channel.send(outgoing))


def _returned(channel_id: str, outcome: SendOutcome) -> CallResult:
    if isinstance(outcome, Delivered):
        told: JsonObject = {"channel": channel_id, "message": outcome.message}
        return CallResult(content=({"type": "text", "text": f"sent to {channel_id}"},), structured=told)
    if isinstance(outcome, NotDelivered):
        raise ToolFailed(f"the channel {channel_id} did not take it: {outcome.reason}", hint="look at the channel")
    raise OutcomeUnknown(
        f"the channel {channel_id} did not say whether it took it: {outcome.reason}",
        hint="look there before you send it again",
    )


def _actions(channel_id: str, abilities: ChannelAbilities) -> list[Capability]:
    most = min(abilities.max_message_size or _TEXT_CHARACTERS, _TEXT_CHARACTERS)
    target: JsonObject = {"type": "string", "minLength": 1, "maxLength": _ID_CHARACTERS}
    text: JsonObject = {"type": "string", "minLength": 1, "maxLength": most}
    found = [_action(channel_id, SEND, "Send a message", abilities, target=target, text=text)]
    if abilities.supports_edit:
        edited = _action(
            channel_id, EDIT, "Give a message another text", abilities, target=target, message=target, text=text
        )
        found.append(edited)
    return found


def _action(channel_id: str, name: str, what: str, abilities: ChannelAbilities, **fields: JsonObject) -> Capability:
    return Capability(
        id=f"channel:{channel_id}/{name}",
        name=name,
        kind="channel",
        description=f"{what} through the channel {channel_id}.",
        input_schema={
            "type": "object",
            "properties": {**fields},
            "required": [*fields],
            "additionalProperties": False,
        },
        risk="medium",
        flow=_FLOW,
        effects="idempotent" if abilities.dedupe == "native" or name == EDIT else "at_most_once",
        limits=CapabilityLimits(timeout_s=2 * CHANNEL_ANSWER_S),
        source=f"channel:{channel_id}",
    )

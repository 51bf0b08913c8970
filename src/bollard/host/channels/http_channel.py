"""The channel of a program behind a URL: each operation is one signed request."""

import contextlib
from typing import Any, Final

import msgspec

from bollard.host.agents.saved_proxy import Logins, OwnProxy
from bollard.host.channels.channel import (
    Abilities,
    Acted,
    ActionOrder,
    ActOutcome,
    Delivered,
    DeliveryUnknown,
    NotDelivered,
    Outgoing,
    SavedChannel,
    SendOutcome,
)
from bollard.host.channels.content_filter import ContentFilter
from bollard.host.channels.platform_actions import PlatformAction
from bollard.host.channels.signed_post import SignedPost
from bollard.host.channels.signing import secret_bytes
from bollard.host.clock import Clock
from bollard.host.egress.client import EgressClient
from bollard.host.egress.destination import Destination, EgressResponse
from bollard.host.limits import CHANNEL_ANSWER_BYTES, LAZY_FILE_BYTES
from bollard.host.texts import Locale
from bollard.protocol import JsonObject
from bollard.wire import FrameError, decode

_CARD_TYPES: Final = {"interaction": "interaction.requested", "interaction_update": "interaction.updated"}
_ID_CHARACTERS: Final = 256
_ERROR_CHARACTERS: Final = 500


class HttpChannel:
    """One saved channel of kind `http` that has a URL."""

    def __init__(
        self, config: SavedChannel, workspace: str, clock: Clock, egress: EgressClient, logins: Logins | None = None
    ) -> None:
        """`logins` has the login of the channel's proxy."""
        self._config = config
        self._workspace = workspace
        proxy = OwnProxy(config, logins, workspace, f"channel:{config.channel_id}")
        key = secret_bytes(config.secret or "")
        self._post = SignedPost(config.url or "", key, clock=clock, egress=egress, proxy=proxy)

    @property
    def abilities(self) -> Abilities:
        return self._config.abilities

    @property
    def locale(self) -> Locale:
        return self._config.locale

    @property
    def filter_out(self) -> ContentFilter | None:
        return self._config.rules.filter_out

    async def send(self, outgoing: Outgoing) -> SendOutcome:
        reply = await self._post.send(outgoing.key, self._body(outgoing))
        return Delivered(_message_of(reply)) if isinstance(reply, EgressResponse) else reply

    @property
    def actions(self) -> tuple[PlatformAction, ...]:
        return self._config.actions

    async def act(self, order: ActionOrder) -> ActOutcome:
        body: JsonObject = {
            "type": "action.requested",
            "channel": self._config.channel_id,
            "workspace": self._workspace,
            "action": order.action,
            "arguments": order.arguments,
            "run_id": order.run_id,
            "call_id": order.call_id,
        }
        reply = await self._post.send(order.key, body)
        return _act_outcome(reply) if isinstance(reply, EgressResponse) else reply

    def serves(self, handle: str) -> bool:
        """Whether a handle leads to the program behind the channel. The address may have changed since the event, and
        another program gets no signature of this one."""
        return Destination.of(handle).origin == Destination.of(self._config.url or "").origin

    async def fetch(self, handle: str, file_id: str) -> EgressResponse:
        """Request a file that the program behind the channel has. Raises `HostError`."""
        return await self._post.fetch(handle, file_id, LAZY_FILE_BYTES)

    def _body(self, outgoing: Outgoing) -> JsonObject:
        body: JsonObject = {
            "type": "message.sent" if outgoing.edit_of is None else "message.edited",
            "channel": self._config.channel_id,
            "workspace": self._workspace,
            "target": outgoing.target,
            "text": outgoing.text,
            "part": outgoing.part,
            "parts": outgoing.parts,
            "final": outgoing.final,
            "run_id": outgoing.run_id,
            "event_id": outgoing.event_id,
        }
        if outgoing.failed is not None:
            body |= {"type": "run.failed", "code": outgoing.failed}
        if outgoing.edit_of is not None:
            body["message"] = outgoing.edit_of
        if outgoing.contents:
            body["contents"] = [*outgoing.contents]
        if outgoing.artifacts:
            body["artifacts"] = [*outgoing.artifacts]
        if outgoing.visible_to:
            body["visible_to"] = [*outgoing.visible_to]
        if outgoing.card is not None:
            body |= {"type": _CARD_TYPES[outgoing.operation], "interaction": outgoing.card}
        return body

    async def close(self) -> None:
        """A no-op: no connection stays open between messages."""


class _ResponseBody(msgspec.Struct):
    """The optional body of a response."""

    message: str | None = None


def _message_of(reply: EgressResponse) -> str | None:
    """The receiver's id of the message, if the response has one: `{"message": "…"}`."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        message = msgspec.json.decode(reply.body, type=_ResponseBody).message
        if message is not None and 0 < len(message) <= _ID_CHARACTERS:
            return message
    return None


class _ActionAnswer(msgspec.Struct):
    """The optional body of the response to an action."""

    result: Any = None
    error: str | None = None


def _act_outcome(reply: EgressResponse) -> ActOutcome:
    """The outcome of an action that the program confirmed. Whether it took effect is unknown if its answer is not
    usable."""
    if reply.truncated:
        return DeliveryUnknown(f"the answer has more than {CHANNEL_ANSWER_BYTES} bytes")
    try:
        answer = msgspec.convert(decode(reply.body) if reply.body else {}, _ActionAnswer)
    except (FrameError, msgspec.ValidationError):
        return DeliveryUnknown("the answer is not a JSON object with `result` or `error`")
    if answer.error is not None:
        return NotDelivered(answer.error[:_ERROR_CHARACTERS], retryable=False)
    return Acted(answer.result)

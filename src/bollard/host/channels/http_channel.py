"""A channel to a program that speaks HTTP: each message is a signed POST to the URL that an admin saved.

2xx is delivered. 408, 425, 429 and 5xx may be tried again, everything else has failed. What left and was not answered
is unknown; where the program says that it knows a repeated `webhook-id`, that is tried again too.
"""

import contextlib
from typing import Final

import msgspec

from bollard.host.channels.channel import (
    ChannelAbilities,
    ChannelConfig,
    Delivered,
    DeliveryUnknown,
    NotDelivered,
    Outgoing,
    SendOutcome,
)
from bollard.host.channels.signing import secret_bytes, sign
from bollard.host.clock import Clock
from bollard.host.egress.client import EgressClient
from bollard.host.egress.destination import EgressRequest, EgressResponse
from bollard.host.errors import EgressDenied, OutcomeUnknown, ToolFailed, UnknownName
from bollard.host.limits import CHANNEL_ANSWER_BYTES, CHANNEL_ANSWER_S
from bollard.protocol import JsonObject

_RETRYABLE: Final = frozenset({408, 425, 429})
_ID_CHARACTERS: Final = 256
_WAIT_MAX_S: Final = 3600.0


class HttpChannel:
    """One saved channel of kind `http` that has a URL."""

    def __init__(self, config: ChannelConfig, workspace: str, clock: Clock, egress: EgressClient) -> None:
        self._config = config
        self._workspace = workspace
        self._clock = clock
        self._egress = egress
        self._key = secret_bytes(config.secret)

    @property
    def abilities(self) -> ChannelAbilities:
        return self._config.abilities

    async def send(self, outgoing: Outgoing) -> SendOutcome:
        body = msgspec.json.encode(self._body(outgoing))
        headers = {"content-type": "application/json", "user-agent": "bollard"}
        headers |= sign(self._key, outgoing.key, self._clock.now_ms() // 1000, body)
        request = EgressRequest(
            url=self._config.url or "",
            method="POST",
            headers=tuple(headers.items()),
            body=body,
            max_bytes=CHANNEL_ANSWER_BYTES,
            timeout_s=CHANNEL_ANSWER_S,
            redirects=0,
        )
        try:
            reply = await self._egress.fetch(request)
        except EgressDenied as error:
            return NotDelivered(f"{error.message}; {error.hint}", retryable=isinstance(error, UnknownName))
        except ToolFailed as error:
            return NotDelivered(error.message, retryable=True)
        except OutcomeUnknown as error:
            return DeliveryUnknown(error.message)
        return _outcome(reply)

    def _body(self, outgoing: Outgoing) -> JsonObject:
        said: JsonObject = {
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
            said |= {"type": "run.failed", "code": outgoing.failed}
        if outgoing.edit_of is not None:
            said["message"] = outgoing.edit_of
        if outgoing.artifacts:
            said["artifacts"] = [*outgoing.artifacts]
        return said

    async def close(self) -> None:
        """Nothing is kept open between two messages."""


class _Said(msgspec.Struct):
    """What a program may say of the message that it took."""

    message: str | None = None


def _outcome(reply: EgressResponse) -> SendOutcome:
    status = reply.status
    if 200 <= status < 300:
        return Delivered(_message_of(reply))
    reason = f"the program answered {status}"
    if status in _RETRYABLE or status >= 500:
        return NotDelivered(reason, retryable=True, retry_after_s=_wait_of(reply))
    return NotDelivered(reason, retryable=False)


def _message_of(reply: EgressResponse) -> str | None:
    """The program's own id of the message, if it gives one: `{"message": "…"}`."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        said = msgspec.json.decode(reply.body, type=_Said)
        if said.message is not None and 0 < len(said.message) <= _ID_CHARACTERS:
            return said.message
    return None


def _wait_of(reply: EgressResponse) -> float | None:
    text = reply.header("retry-after") or ""
    return min(float(text), _WAIT_MAX_S) if text.isascii() and text.isdigit() and len(text) < 9 else None

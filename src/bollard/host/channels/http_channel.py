"""The HTTP channel: each message is a signed POST to the saved URL.

2xx means delivered. 408, 425, 429 and 5xx are retried; any other status is a failure. Without a response the outcome is
unknown; it is retried if the receiver deduplicates by `webhook-id`.
"""

import contextlib
from typing import Final

import msgspec

from bollard.host.channels.channel import (
    Abilities,
    Delivered,
    DeliveryUnknown,
    NotDelivered,
    Outgoing,
    SavedChannel,
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

    def __init__(self, config: SavedChannel, workspace: str, clock: Clock, egress: EgressClient) -> None:
        self._config = config
        self._workspace = workspace
        self._clock = clock
        self._egress = egress
        self._key = secret_bytes(config.secret or "")

    @property
    def abilities(self) -> Abilities:
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
        if outgoing.artifacts:
            body["artifacts"] = [*outgoing.artifacts]
        return body

    async def close(self) -> None:
        """A no-op: no connection stays open between messages."""


class _ResponseBody(msgspec.Struct):
    """The optional body of a response."""

    message: str | None = None


def _outcome(reply: EgressResponse) -> SendOutcome:
    status = reply.status
    if 200 <= status < 300:
        return Delivered(_message_of(reply))
    reason = f"the receiver responded with status {status}"
    if status in _RETRYABLE or status >= 500:
        return NotDelivered(reason, retryable=True, retry_after_s=_wait_of(reply))
    return NotDelivered(reason, retryable=False)


def _message_of(reply: EgressResponse) -> str | None:
    """The receiver's id of the message, if the response has one: `{"message": "…"}`."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        message = msgspec.json.decode(reply.body, type=_ResponseBody).message
        if message is not None and 0 < len(message) <= _ID_CHARACTERS:
            return message
    return None


def _wait_of(reply: EgressResponse) -> float | None:
    text = reply.header("retry-after") or ""
    return min(float(text), _WAIT_MAX_S) if text.isascii() and text.isdigit() and len(text) < 9 else None

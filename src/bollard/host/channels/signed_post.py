"""One signed request to a receiver of webhooks, as Standard Webhooks describes it."""

from typing import Final

import msgspec

from bollard.host.agents.saved_proxy import OwnProxy
from bollard.host.channels.channel import DeliveryUnknown, NotDelivered
from bollard.host.channels.signing import sign
from bollard.host.clock import Clock
from bollard.host.egress.client import EgressClient
from bollard.host.egress.connections import NotSent
from bollard.host.egress.destination import Destination, EgressRequest, EgressResponse
from bollard.host.egress.retry_after import retry_after_s
from bollard.host.errors import EgressDenied, OutcomeUnknown, ToolFailed, UnknownName
from bollard.host.limits import CHANNEL_ANSWER_BYTES, CHANNEL_ANSWER_S, DELIVERY_RETRY_AFTER_S
from bollard.protocol import JsonObject

_RETRYABLE: Final = frozenset({408, 425, 429})
_GONE: Final = 410


class SignedPost:
    """Sends signed bodies to one URL. A failure is an outcome, never an exception."""

    def __init__(self, url: str, key: bytes, *, clock: Clock, egress: EgressClient, proxy: OwnProxy) -> None:
        self._url = url
        self._key = key
        self._clock = clock
        self._egress = egress
        self._proxy = proxy

    async def send(self, message_id: str, content: JsonObject) -> EgressResponse | NotDelivered | DeliveryUnknown:
        """Try once. A response has a status of success."""
        body = msgspec.json.encode(content)
        headers = {"content-type": "application/json", "user-agent": "bollard"}
        headers |= sign(self._key, message_id, self._clock.now_ms() // 1000, body)
        request = EgressRequest(
            url=self._url,
            method="POST",
            headers=tuple(headers.items()),
            body=body,
            max_bytes=CHANNEL_ANSWER_BYTES,
            timeout_s=CHANNEL_ANSWER_S,
            redirects=0,
        )
        try:
            reply = await self._egress.fetch(request, await self._proxy.open())
        except NotSent as error:
            return NotDelivered(str(error), retryable=True)
        except EgressDenied as error:
            return NotDelivered(f"{error.message}; {error.hint}", retryable=isinstance(error, UnknownName))
        except ToolFailed as error:
            return NotDelivered(error.message, retryable=True)
        except OutcomeUnknown as error:
            return DeliveryUnknown(error.message)
        return reply if 200 <= reply.status < 300 else _refusal(reply, self._clock.now_ms() / 1000)

    async def fetch(self, url: str, message_id: str, max_bytes: int) -> EgressResponse:
        """Request a document of the receiver. The method, the path and the query are signed. Raises `HostError`."""
        path = f"GET {Destination.of(url).path}".encode()
        signed = sign(self._key, message_id, self._clock.now_ms() // 1000, path)
        request = EgressRequest(
            url=url,
            headers=tuple({"user-agent": "bollard", **signed}.items()),
            max_bytes=max_bytes,
            timeout_s=CHANNEL_ANSWER_S,
            redirects=0,
        )
        return await self._egress.fetch(request, await self._proxy.open())


def _refusal(reply: EgressResponse, now_s: float) -> NotDelivered:
    status = reply.status
    reason = f"the receiver responded with status {status}"
    if status in _RETRYABLE or status >= 500:
        wait_s = retry_after_s(reply.headers, now_s, DELIVERY_RETRY_AFTER_S)
        return NotDelivered(reason, retryable=True, retry_after_s=wait_s)
    return NotDelivered(reason, retryable=False, gone=status == _GONE)

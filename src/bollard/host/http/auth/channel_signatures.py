"""Requests that the secret of a channel signs. The signature also identifies the workspace: channels of several
workspaces may have the same name."""

from typing import Final

from starlette.requests import Request

from bollard.host.channels.channel import SavedChannel
from bollard.host.channels.registry import ChannelRepository
from bollard.host.channels.signing import SignatureClaim, read_seal, secret_bytes
from bollard.host.clock import Clock
from bollard.host.errors import HostError, Unauthenticated
from bollard.host.http.guard import Rates, Unlimited
from bollard.host.http.operations import HeaderField
from bollard.host.log.saved_resources import Saved

SIGNATURE: Final = (
    HeaderField(name="webhook-id", summary="The message, the same for every try.", example="msg_1", required=True),
    HeaderField(name="webhook-timestamp", summary="Seconds of the epoch.", example="1794735484", required=True),
    HeaderField(
        name="webhook-signature",
        summary="`v1,` and the base64 of the HMAC-SHA256 of id, timestamp and body, with a dot between them.",
        example="v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
        required=True,
    ),
)

TARGET_SIGNATURE: Final = (
    *SIGNATURE[:2],
    HeaderField(
        name="webhook-signature",
        summary="As of an event, with the method, a space, the path and the query in place of the body.",
        example="v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
        required=True,
    ),
)


class ChannelSignatures:
    """Verifies signed requests, and limits channels and addresses that send invalid signatures."""

    def __init__(
        self, repository: ChannelRepository, clock: Clock, rates: Rates | None = None, strangers: Rates | None = None
    ) -> None:
        self._repository = repository
        self._clock = clock
        self._rates = rates or Unlimited()
        self._strangers = strangers or Unlimited()

    def claim(self, request: Request) -> SignatureClaim:
        """The signatures of a request, not verified yet. Raises `Unauthenticated`."""
        seal = read_seal(request.headers, self._clock.now_ms() / 1000)
        if not isinstance(seal, SignatureClaim):
            raise self.stranger(request, seal)
        return seal

    def named(self, channel_id: str) -> list[Saved[SavedChannel]]:
        """The channels of this name that have a secret, in every open workspace."""
        return [saved for saved in self._repository.named(channel_id) if saved.value.secret]

    def signer(self, request: Request) -> Saved[SavedChannel]:
        """The channel of the path that signed the method, the path and the query in place of a body. Raises
        `Unauthenticated`, `RateExceeded`."""
        seal, text, found = self.claim(request), _target(request), None
        for saved in self.named(request.path_params["channel_id"]):
            digest = seal.begin(secret_bytes(saved.value.secret or ""))
            digest.update(text)
            found = saved if seal.fits(digest) else found
        return self.admitted(request, found)

    def admitted(self, request: Request, signer: Saved[SavedChannel] | None) -> Saved[SavedChannel]:
        """The channel that signed a request, if it is enabled and within its rate."""
        if signer is None or not signer.value.enabled:
            raise self.stranger(request, "forged")
        refused = self._rates.take(f"{signer.workspace}/channel:{signer.id}")
        if refused is not None:
            raise refused
        return signer

    def stranger(self, request: Request, fault: str) -> HostError:
        """The error of a request without a valid signature; after many of them, a rate limit."""
        client = request.client
        return self._strangers.take("" if client is None else client.host) or _unsigned(fault)


def _target(request: Request) -> bytes:
    """The method, path and query of a request, as they were sent."""
    scope = request.scope
    path, query = scope.get("raw_path") or scope["path"].encode(), scope["query_string"]
    return b"%b %b?%b" % (request.method.encode(), path, query) if query else b"%b %b" % (request.method.encode(), path)


def _unsigned(fault: str) -> Unauthenticated:
    hints = {
        "missing": "sign the request: webhook-id, webhook-timestamp and webhook-signature",
        "malformed": "send the three headers in the format of Standard Webhooks",
        "late": "the time in webhook-timestamp is too far from now: look at the clock, and sign again",
        "forged": "no channel of this name has the secret that signed it; look at both",
    }
    return Unauthenticated("this needs the signature of a channel", reason=f"signature_{fault}", hint=hints[fault])

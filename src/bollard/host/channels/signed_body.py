"""The body of a saved resource that sends signed requests to a URL."""

from typing import Annotated, Final, Self

from pydantic import Field

from bollard.host.agents.config_form import KEPT
from bollard.host.agents.saved_proxy import ProxiedBody
from bollard.host.channels.signing import new_secret, secret_bytes
from bollard.host.egress.client import EgressClient
from bollard.host.egress.destination import Destination
from bollard.host.errors import EgressDenied, InvalidRequest, caused_by
from bollard.protocol import JsonObject
from bollard.wire.addresses import is_loopback

URL_CHARACTERS: Final = 2048


class SignedBody(ProxiedBody):
    """A resource with a signing secret, which the log does not have."""

    secret: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        default=None, repr=False, exclude=True, description="Signs messages, and verifies events."
    )

    def to_wire(self) -> JsonObject:
        """The resource in an answer: `KEPT` stands for the secret, which is never shown."""
        return {**super().to_wire(), "secret": KEPT}

    def stored(self) -> JsonObject:
        """The body in the log, which must not have the secret."""
        return super().to_wire()

    def with_secret(self, secret: str | None) -> Self:
        return self.model_copy(update={"secret": secret})

    def checked_secret(self, before: str | None) -> str:
        """The secret of the request, the one that the resource had, or a new one. Raises `InvalidRequest`."""
        secret = self.secret
        if secret is None or secret == KEPT:
            secret = before or new_secret()
        try:
            secret_bytes(secret)
        except ValueError as error:
            hint = "leave it out: the host makes one"
            raise self._wrong(f"{self.noun}_secret", "secret", str(error), hint) from error
        return secret

    def check_url(self, url: str) -> None:
        """Raises `InvalidRequest` for an address that cannot work, or that everyone on its way could read."""
        try:
            place = Destination.of(url)
        except ValueError as error:
            hint = "use something like https://chat.example.org/hook"
            raise self._wrong(f"{self.noun}_url", "url", str(error), hint) from error
        if place.scheme == "http" and not is_loopback(place.host):
            hint = "use https, or a program on this machine"
            raise self._wrong(f"{self.noun}_url_plain", "url", "is plain http to another machine", hint)

    def check_reach(self, url: str | None, egress: EgressClient) -> None:
        """Refuse an address that the egress rules forbid. A host name is checked with each request."""
        self.check_proxy(egress)
        if url is None:
            return
        try:
            egress.check_host(Destination.of(url))
        except EgressDenied as error:
            field = f"{self.noun}.url"
            raise InvalidRequest(
                f"{field}: {error.message}",
                reason=f"{self.noun}_url_denied",
                hint=error.hint,
                field=field,
                **caused_by(error),
            ) from error

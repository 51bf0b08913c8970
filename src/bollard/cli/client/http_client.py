"""Requests to the host's API over the host's own HTTP client: one connection per request, with the headers of the
caller. This module knows HTTP, not the API."""

import asyncio
import contextlib
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Literal
from urllib.parse import urlsplit

from bollard.cli.limits import HTTP_BODY_BYTES, HTTP_CONNECT_S, HTTP_HEAD_BYTES, HTTP_SILENCE_S, TLS_PROBE_S
from bollard.host.egress.connections import Connections, HttpAnswer, HttpRequest, NotAnswered, NotSent
from bollard.host.egress.destination import Destination

_PORTS: Final = {"http": 80, "https": 443}


CertificateFault = Literal["authority", "name", "time"]
"""The part of a certificate that is not accepted: its issuer, its names, or its period."""
_FAULTS: Final[Mapping[int, CertificateFault]] = {9: "time", 10: "time", 62: "name", 64: "name"}
"""Verification codes of OpenSSL: not yet valid, expired, another host name, another address."""


class HttpFailure(Exception):
    """Root of the tree: a request without an answer.

    HttpFailure
    ├── Unreachable          the connection was refused
    ├── ConnectionLost       the connection was lost
    │   └── NoAnswer         the connection ended before an answer began
    └── BadAnswer            the server is not one that this client can talk to; a retry does not help
        ├── UntrustedServer  its certificate is not accepted
        ├── NoTls            it does not speak TLS
        └── NeedsTls         it speaks nothing but TLS
    """

    def __init__(self, address: str, detail: str | Exception) -> None:
        super().__init__(f"{address}: {detail}")
        self.address = address
        self.detail = detail


class Unreachable(HttpFailure):
    """The connection was refused."""


class ConnectionLost(HttpFailure):
    """The connection was lost."""


class NoAnswer(ConnectionLost):
    """The connection ended before an answer began."""


class BadAnswer(HttpFailure):
    """The answer is not valid HTTP."""


class UntrustedServer(BadAnswer):
    """The certificate of the server is not accepted."""

    def __init__(self, address: str, error: ssl.SSLCertVerificationError) -> None:
        super().__init__(address, error.verify_message)
        self.fault: CertificateFault = _FAULTS.get(error.verify_code, "authority")


class NoTls(BadAnswer):
    """The server does not speak TLS."""


class NeedsTls(BadAnswer):
    """The server speaks nothing but TLS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of a host."""

    scheme: str
    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def read_url(url: str) -> Address:
    """The address of a URL; raises `ValueError`."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError(url)
    port = parts.port or _PORTS[parts.scheme]
    return Address(scheme=parts.scheme, host=parts.hostname, port=port, path=parts.path.rstrip("/"))


class HttpClient:
    """Sends requests to one address with fixed headers."""

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        self.address = address
        self._headers = dict(headers)
        place = Destination(scheme=address.scheme, host=address.host, port=address.port, path=address.path)
        self._connections = Connections(place, HTTP_CONNECT_S, _addresses, keeps=False)

    @contextlib.asynccontextmanager
    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        sent: Callable[[int], None] | None = None,
        *,
        body_bytes: int = HTTP_BODY_BYTES,
    ) -> AsyncGenerator[HttpAnswer]:
        """Send a request; read the body of the answer inside the block. `sent` is called with the number of sent bytes.
        Raises `HttpFailure`, also for errors while the answer is read inside the block."""
        where = str(self.address)
        request = HttpRequest(
            method=method,
            path=self.address.path + path,
            headers=tuple(self._fields(body, headers or {}).items()),
            body=body or b"",
            first_s=HTTP_SILENCE_S,
            idle_s=HTTP_SILENCE_S,
            head_bytes=HTTP_HEAD_BYTES,
            body_bytes=body_bytes,
            sent=sent or (lambda _: None),
        )
        has_head = False
        try:
            async with self._connections.asked(request) as answer:
                has_head = True
                answer.begun()
                yield answer
        except NotSent as error:
            raise _not_sent(where, error) from error
        except NotAnswered as error:
            if not has_head and error.reason != "timeout" and await self._speaks_tls():
                raise NeedsTls(where, error) from error
            lost = NoAnswer if error.reason == "closed" and not has_head else ConnectionLost
            failure = BadAnswer if error.reason == "invalid" else lost
            raise failure(where, error) from error

    async def _speaks_tls(self) -> bool:
        """Whether the port of a plain address completes a TLS handshake. Nothing is sent over it."""
        if self.address.scheme == "https":
            return False
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            async with asyncio.timeout(TLS_PROBE_S):
                _, writer = await asyncio.open_connection(self.address.host, self.address.port, ssl=context)
        except OSError:  # among them TLS errors and the timeout
            return False
        writer.transport.abort()
        return True

    def stream(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> contextlib.AbstractAsyncContextManager[HttpAnswer]:
        """Like `request`, for an answer of any length that is read in chunks."""
        return self.request(method, path, body, headers, body_bytes=sys.maxsize)

    def _fields(self, body: bytes | None, headers: Mapping[str, str]) -> dict[str, str]:
        fields = {**self._headers, **headers}
        if body is not None:
            fields = {"Content-Type": "application/json", **fields}
        for name, value in fields.items():
            if "\n" in value or "\r" in value:
                raise ValueError(f"the header {name} has a line break")
        return fields


def _not_sent(address: str, error: NotSent) -> HttpFailure:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return UntrustedServer(address, cause)
    if isinstance(cause, ssl.SSLError) and "ALERT" not in (cause.reason or ""):  # an alert is an answer in TLS
        return NoTls(address, error)
    return Unreachable(address, error)


async def pieces_of(answer: HttpAnswer) -> AsyncIterator[bytes]:
    """The body in chunks."""
    while piece := await answer.read():
        yield piece


async def _addresses(place: Destination, within_s: float) -> Sequence[IPv4Address | IPv6Address]:
    """All addresses of a host. There are no egress rules here, because the person names the host. Raises `NotSent`."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(within_s):
            found = await loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise NotSent(f"no address within {within_s:g} s", "net.no_address_in_time", seconds=within_s) from None
    except OSError as error:
        raise NotSent(error.strerror or str(error), "net.no_address") from error
    return list(dict.fromkeys(ip_address(entry[4][0]) for entry in found))

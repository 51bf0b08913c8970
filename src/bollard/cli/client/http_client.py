"""Requests to the host's API over the host's own HTTP client: one connection per request, with the headers of the
caller. This module knows HTTP, not the API."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from bollard.cli.limits import HTTP_BODY_BYTES, HTTP_CONNECT_S, HTTP_HEAD_BYTES, HTTP_SILENCE_S
from bollard.host.egress.connections import Connections, HttpAnswer, HttpRequest, NotAnswered, NotSent
from bollard.host.egress.destination import Destination

_PORTS: Final = {"http": 80, "https": 443}


class HttpFailure(Exception):
    """Root of the tree: a request without an answer."""

    def __init__(self, address: str, detail: str) -> None:
        super().__init__(f"{address}: {detail}")
        self.address = address
        self.detail = detail


class Unreachable(HttpFailure):
    """The connection was refused."""


class ConnectionLost(HttpFailure):
    """The connection was lost."""


class BadAnswer(HttpFailure):
    """The answer is not valid HTTP."""


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
        try:
            async with self._connections.asked(request) as answer:
                answer.begun()
                yield answer
        except NotSent as error:
            raise Unreachable(where, str(error)) from error
        except NotAnswered as error:
            failure = BadAnswer if error.reason == "invalid" else ConnectionLost
            raise failure(where, str(error)) from error

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
        raise NotSent(f"no address within {within_s:g} s") from None
    except OSError as error:
        raise NotSent(str(error)) from error
    return list(dict.fromkeys(ip_address(entry[4][0]) for entry in found))

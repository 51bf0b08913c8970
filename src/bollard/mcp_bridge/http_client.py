"""The HTTP client for MCP servers: only the address that was configured and what a login needs, no proxy of the
environment, and a limit on what comes back."""

from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, cast

import httpx2

from bollard.mcp_bridge.limits import LOGIN_ANSWER_BYTES, LOGIN_REQUEST_S
from bollard.wire.addresses import named_address_problem
from bollard.wire.bridge_frames import MCP_MESSAGE_BYTES

__all__ = ["Departure", "departure", "for_login", "http_client", "mark_departed"]


# Whether the request of a call has left for the server. A transport marks it; the call that made it reads it.
#
# The mark travels in the context of the task that makes the call, because the SDK has no place for it.


class Departure:
    """Of one call."""

    def __init__(self) -> None:
        self.left = False
        """Whether the server may have begun with it."""


_current: Final[ContextVar[Departure | None]] = ContextVar("departure", default=None)


@contextmanager
def departure() -> Generator[Departure]:
    """Watch the request that is made inside."""
    watched = Departure()
    token = _current.set(watched)
    try:
        yield watched
    finally:
        _current.reset(token)


def mark_departed() -> None:
    """Called by a transport right before the first byte of a request leaves."""
    if (watched := _current.get()) is not None:
        watched.left = True


_CONNECT_S: Final = 10.0
_WRITE_S: Final = 30.0
_READ_S: Final = 24 * 3600.0
"""Calls have their own time, and a stream of events may be silent for long."""
_CONNECTIONS: Final = 64
_FOR_LOGIN: Final = "bollard.login"
_LOGIN_TIMES: Final = httpx2.Timeout(LOGIN_REQUEST_S).as_dict()


def for_login(request: httpx2.Request) -> None:
    """Mark a request that no MCP server answers but whoever knows about logins: it has less time and less room."""
    request.extensions = {**request.extensions, _FOR_LOGIN: True, "timeout": _LOGIN_TIMES}


class _CappedStream(httpx2.AsyncByteStream):
    """The body of one answer. A stream of events may go on for ever; each event has the limit then, which is the SDK's
    to keep, so here it is only counted what is no stream of events."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int | None) -> None:
        self._inner = inner
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for piece in self._inner:
            seen += len(piece)
            if self._limit is not None and seen > self._limit:
                raise httpx2.StreamError(f"the answer has more than {self._limit} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class _CappedTransport(httpx2.AsyncHTTPTransport):
    """Adds the limit, looks where a request goes, and takes no packed answers: a few bytes of those can be
    gigabytes."""

    def __init__(self, url: str, limits: httpx2.Limits) -> None:
        super().__init__(trust_env=False, limits=limits)
        self._server = httpx2.URL(url)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._check(request)
        request.headers["accept-encoding"] = "identity"
        if _FOR_LOGIN not in request.extensions:
            request.extensions = {**request.extensions, "trace": _trace}
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("the answer is packed, and nobody asked for that", request=request)
        body = cast("httpx2.AsyncByteStream", response.stream)  # it came from an asynchronous transport
        capped = _CappedStream(body, _limit(request, response))
        return httpx2.Response(
            response.status_code, headers=response.headers, stream=capped, extensions=response.extensions
        )

    def _check(self, request: httpx2.Request) -> None:
        """What was configured was judged when it was saved; anything else is the word of a server."""
        url = request.url
        if (url.scheme, url.host, url.port) == (self._server.scheme, self._server.host, self._server.port):
            return
        if (problem := named_address_problem(str(url), str(self._server))) is not None:
            shown = url.copy_with(userinfo=b"", query=None, fragment=None)
            raise httpx2.UnsupportedProtocol(f"the server leads to {shown}, which {problem}", request=request)


async def _trace(event: str, info: object) -> None:
    del info
    if event.endswith(".send_request_headers.started"):
        mark_departed()


def _limit(request: httpx2.Request, response: httpx2.Response) -> int | None:
    if _FOR_LOGIN in request.extensions:
        return LOGIN_ANSWER_BYTES
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    return None if is_stream else MCP_MESSAGE_BYTES


def http_client(url: str, headers: Mapping[str, str], auth: httpx2.Auth | None = None) -> httpx2.AsyncClient:
    """For one server. Redirects are followed by the SDK, and only within the origin that was configured. The headers
    are the server's: requests of a login do not have them."""
    limits = httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=8)
    return httpx2.AsyncClient(
        headers=dict(headers),
        timeout=httpx2.Timeout(connect=_CONNECT_S, write=_WRITE_S, read=_READ_S, pool=_CONNECT_S),
        transport=_CappedTransport(url, limits),
        trust_env=False,
        auth=auth,
    )

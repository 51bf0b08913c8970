"""The HTTP client for MCP servers. It reaches only the configured address and those of a login, ignores proxies of the
environment, and limits the size of answers."""

from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, cast

import httpcore2
import httpx2

from bollard.mcp_bridge.dialer import Dialer
from bollard.mcp_bridge.fault import FaultRaised, fault
from bollard.mcp_bridge.limits import CONNECT_S, LOGIN_ANSWER_BYTES, LOGIN_REQUEST_S
from bollard.wire.addresses import named_address_problem
from bollard.wire.bridge_frames import MCP_MESSAGE_BYTES


class Departure:
    """Whether the request of one call was sent. Travels in a context variable, because the SDK cannot carry it."""

    def __init__(self) -> None:
        self.left = False
        """Whether the server may have received the request."""


_current: Final[ContextVar[Departure | None]] = ContextVar("departure", default=None)


@contextmanager
def departure() -> Generator[Departure]:
    """Track the request that is made in this context."""
    watched = Departure()
    token = _current.set(watched)
    try:
        yield watched
    finally:
        _current.reset(token)


def mark_departed() -> None:
    """Called by a transport right before it sends the first byte of a request."""
    if (watched := _current.get()) is not None:
        watched.left = True


_WRITE_S: Final = 30.0
_READ_S: Final = 24 * 3600.0
"""Long, because calls have their own deadlines and an event stream may be silent."""
_CONNECTIONS: Final = 64
_KEPT: Final = 8
_KEPT_S: Final = 5.0
"""Idle connections, and the time after which they are closed."""
_FOR_LOGIN: Final = "bollard.login"
_LOGIN_TIMES: Final = httpx2.Timeout(LOGIN_REQUEST_S).as_dict()


def for_login(request: httpx2.Request) -> None:
    """Mark a request of the OAuth flow: it has a shorter time-out and a smaller limit."""
    request.extensions = {**request.extensions, _FOR_LOGIN: True, "timeout": _LOGIN_TIMES}


class _StreamFault(FaultRaised, httpx2.StreamError):
    """An answer is larger than its limit."""

    def __init__(self, problem: str, problem_type: str, **values: Any) -> None:
        super().__init__(problem)
        self.fault = fault(problem, problem_type, **values)


class _Refused(FaultRaised, httpx2.UnsupportedProtocol):
    """A request that is not made, or an answer that is not read."""

    def __init__(self, problem: str, problem_type: str, **values: Any) -> None:
        super().__init__(problem)
        self.fault = fault(problem, problem_type, **values)


class _CappedStream(httpx2.AsyncByteStream):
    """The body of one answer, with a limit. An event stream has none here: the SDK limits each event."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int | None) -> None:
        self._inner = inner
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for piece in self._inner:
            seen += len(piece)
            if self._limit is not None and seen > self._limit:
                raise _StreamFault(f"the answer has more than {self._limit} bytes", "mcp.too_large", limit=self._limit)
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class _CappedTransport(httpx2.AsyncHTTPTransport):
    """Limits answers, checks the target of each request, and refuses compressed answers (decompression bombs)."""

    def __init__(self, url: str, dialer: Dialer) -> None:
        super().__init__(trust_env=False)
        # The transport has no parameter for the way to connect; this is its own pool with one.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=_CONNECTIONS,
            max_keepalive_connections=_KEPT,
            keepalive_expiry=_KEPT_S,
            network_backend=dialer,
        )
        self._server = httpx2.URL(url)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._check(request)
        request.headers["accept-encoding"] = "identity"
        if _FOR_LOGIN not in request.extensions:
            request.extensions = {**request.extensions, "trace": _trace}
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise _Refused("the answer is compressed, against the request", "mcp.compressed")
        body = cast("httpx2.AsyncByteStream", response.stream)
        capped = _CappedStream(body, _limit(request, response))
        return httpx2.Response(
            response.status_code, headers=response.headers, stream=capped, extensions=response.extensions
        )

    def _check(self, request: httpx2.Request) -> None:
        """Check an address that a server named. The configured address was checked when it was saved."""
        url = request.url
        if (url.scheme, url.host, url.port) == (self._server.scheme, self._server.host, self._server.port):
            return
        if (problem := named_address_problem(str(url), str(self._server))) is not None:
            public = url.copy_with(userinfo=b"", query=None, fragment=None)
            inner = {"problem_type": f"address.{problem.reason}"}
            said = f"the server leads to {public}, which {problem.message}"
            raise _Refused(said, "mcp.leads_to", url=str(public), inner=inner)


async def _trace(event: str, info: object) -> None:
    del info
    if event.endswith(".send_request_headers.started"):
        mark_departed()


def _limit(request: httpx2.Request, response: httpx2.Response) -> int | None:
    if _FOR_LOGIN in request.extensions:
        return LOGIN_ANSWER_BYTES
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    return None if is_stream else MCP_MESSAGE_BYTES


def http_client(
    url: str, headers: Mapping[str, str], dialer: Dialer, auth: httpx2.Auth | None = None
) -> httpx2.AsyncClient:
    """A client for one server. The SDK follows redirects within the configured origin only. Requests of a login do not
    get the headers."""
    return httpx2.AsyncClient(
        headers=dict(headers),
        timeout=httpx2.Timeout(connect=CONNECT_S, write=_WRITE_S, read=_READ_S, pool=CONNECT_S),
        transport=_CappedTransport(url, dialer),
        trust_env=False,
        auth=auth,
    )

"""One request and its response: the head of the request, with the checks that the parser leaves out, and the exchange
with the ASGI app.

The head of a response is sent together with the first part of its body: a send costs more than building both.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

import structlog
from starlette.types import ASGIApp, Message, Scope

from bollard.host.errors import HostError
from bollard.host.http.answers import CACHE_HEADER, POLICY_HEADER, STATUS_LINES, error_answer, internal_error
from bollard.host.http.errors import ExpectationFailed, HeadTooLarge, MalformedRequest, UnsupportedMedia
from bollard.host.limits import REQUEST_HEAD_BYTES, REQUEST_HEADERS

_log = structlog.get_logger("bollard.host.http")
_HINT: Final = "send HTTP/1.1 as RFC 9112 defines it"
_CHECKED: Final = frozenset({b"host", b"transfer-encoding", b"content-encoding", b"expect", b"upgrade"})
_UPGRADING: Final = frozenset({b"upgrade", b"connection", b"http2-settings"})
_BODY_AHEAD_BYTES: Final = 64 * 1024
"""Bytes of a body that are buffered before the app reads them; then reading from the socket pauses."""
_JOINED_BYTES: Final = 64 * 1024
"""The largest body part that is copied to be sent together with the head."""
_LENGTH, _CONNECTION, _POLICY, _CACHE = range(4)
_SPECIAL: Final = {
    b"content-length": _LENGTH,
    b"connection": _CONNECTION,
    b"content-security-policy": _POLICY,
    b"cache-control": _CACHE,
}
_BODILESS: Final = frozenset({204, 304})


class Head:
    """The head of a request, collected field by field. Anything that two HTTP implementations could read differently is
    an error."""

    __slots__ = ("_encodings", "_hosts", "_refusal", "continues", "fields", "upgrade", "url")

    def __init__(self) -> None:
        self.url = b""
        self.fields: list[tuple[bytes, bytes]] = []
        """Names in lower case."""
        self.continues = False
        """Whether the client waits for `100 Continue` before it sends the body."""
        self.upgrade: bytes | None = None
        self._hosts = 0
        self._encodings: bytes | None = None
        self._refusal: HostError | None = None
        """Why a well-formed head is refused."""

    def add(self, name: bytes, value: bytes) -> None:
        """Add a header line; the name is in lower case."""
        if name in _CHECKED:
            if name == b"host":
                self._hosts += 1
            elif name == b"expect":
                self.continues = value.lower().rstrip() == b"100-continue"
                if not self.continues:
                    self._refusal = ExpectationFailed(
                        "the only supported expectation is 100-continue",
                        reason="expect_header",
                        hint="send no other Expect header",
                    )
            elif name == b"content-encoding":
                if value.lower().rstrip() != b"identity":
                    self._refusal = UnsupportedMedia(
                        "compressed bodies are not supported",
                        reason="content_encoding",
                        hint="send the body without Content-Encoding",
                    )
            elif name == b"upgrade":
                self.upgrade = value.lower()
            else:
                self._encodings = value.lower() if self._encodings is None else b"several"
        self.fields.append((name, value))

    def problem(self, version: str, received: int) -> HostError | None:
        """The error for this head, if any. `received` counts the bytes so far, perhaps with a part of the body."""
        if len(self.fields) > REQUEST_HEADERS or (received > REQUEST_HEAD_BYTES and self._size() > REQUEST_HEAD_BYTES):
            return too_large()
        if version not in ("1.1", "1.0"):
            return malformed("http_version", f"HTTP/{version} is not supported", version=version)
        if self._hosts > 1:
            return malformed("two_host_headers", "the request has more than one Host header")
        if not self._hosts and version == "1.1":
            return malformed("no_host_header", "the request has no Host header")
        if not self.url.startswith(b"/") or b"#" in self.url:
            return malformed("target", "the request target is not a path")
        if self._encodings is not None and (self._encodings != b"chunked" or version == "1.0"):
            return malformed("transfer_encoding", "the only supported Transfer-Encoding is chunked")
        return self._refusal

    def drop_upgrade(self) -> None:
        """Remove the upgrade, so that the request is served as plain HTTP; the connection closes afterwards."""
        self.fields = [field for field in self.fields if field[0] not in _UPGRADING]
        self.fields.append((b"connection", b"close"))

    def encode(self, method: bytes, version: bytes) -> bytes:
        """The head as bytes."""
        lines = [b"%b: %b\r\n" % field for field in self.fields]
        return b"".join([b"%b %b HTTP/%b\r\n" % (method, self.url, version), *lines, b"\r\n"])

    def _size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.fields)


def malformed(reason: str, message: str, **details: str) -> MalformedRequest:
    """The error for a request that is not valid HTTP/1.1."""
    return MalformedRequest(message, reason=reason, hint=_HINT, **details)


def too_large() -> HeadTooLarge:
    """The error for a head above its limits."""
    return HeadTooLarge(
        f"the request head is larger than {REQUEST_HEAD_BYTES} bytes or {REQUEST_HEADERS} headers",
        reason="head",
        hint="send shorter headers and a shorter URL",
        max_bytes=REQUEST_HEAD_BYTES,
        max_headers=REQUEST_HEADERS,
    )


def trailers_too_large() -> HeadTooLarge:
    """The error for trailers and chunk extensions above the limit of a head."""
    return HeadTooLarge(
        f"the trailers and chunk extensions are larger than {REQUEST_HEAD_BYTES} bytes",
        reason="trailers",
        hint="send shorter trailers and chunk extensions, or none",
        max_bytes=REQUEST_HEAD_BYTES,
    )


class ConnectionPort(Protocol):
    """The connection, as an exchange uses it."""

    transport: asyncio.Transport
    is_behind: bool
    """Whether the reader is behind, so that sending must wait."""

    @property
    def headers(self) -> bytes:
        """Headers of every response."""
        ...

    async def drained(self) -> None:
        """Returns when the reader has caught up, or is gone."""
        ...

    def set_reading(self, *, reading: bool) -> None:
        """Resume or pause reading from the socket."""
        ...

    def answered(self) -> None:
        """The response is sent."""
        ...


class Exchange:
    """Begins with the head of a request, ends when its response is sent."""

    __slots__ = (
        "_body",
        "_chunked",
        "_connection",
        "_continues",
        "_end_delivered",
        "_ended",
        "_head",
        "_keeps",
        "_remaining",
        "_waiter",
        "complete",
        "gone",
        "keep_alive",
        "scope",
        "started",
    )

    def __init__(self, connection: ConnectionPort, scope: Scope, *, keeps: bool, continues: bool) -> None:
        self.scope = scope
        self.keep_alive = False
        """Only after the whole request has arrived: its rest must never be parsed as another request."""
        self.started = False
        self.complete = False
        self.gone = False
        """Whether the client has disconnected."""
        self._connection = connection
        self._keeps = keeps
        self._continues = continues
        self._body = b""
        self._ended = False
        self._end_delivered = False
        self._waiter: asyncio.Future[None] | None = None
        self._head = b""
        self._remaining: int | None = None
        self._chunked = False

    # --- called by the connection ---

    def add_body(self, part: bytes) -> None:
        """A part of the body."""
        if self.complete or self.gone:
            return
        self._body = self._body + part if self._body else part
        if len(self._body) > _BODY_AHEAD_BYTES:
            self._connection.set_reading(reading=False)
        self._wake()

    def end_request(self) -> None:
        """The whole request has arrived."""
        self._ended = True
        self.keep_alive = self._keeps
        self._wake()

    def disconnect(self) -> None:
        """The client has disconnected."""
        self.gone = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- called by the app ---

    async def run(self, app: ASGIApp) -> None:
        """Run the app. An exception that it does not catch is a bug: the client gets a 500, or the connection is
        aborted when a response has begun."""
        try:
            await app(self.scope, self.receive, self.send)
            if not self.complete and not self.gone:
                _log.error("the app returned without a response", path=self.scope["path"])
        except Exception:  # noqa: BLE001 -- the boundary of the app
            _log.exception("a request failed", path=self.scope["path"])
            if not self.started and not self.gone:
                await error_answer(internal_error())(self.scope, self.receive, self.send)
        finally:
            if not self.complete and not self.gone:
                self._connection.transport.abort()

    async def receive(self) -> Message:
        """Read the next part of the body. Only one reader may wait at a time. What has arrived of a body that is cut
        off is read first: an upload continues after it."""
        if self._continues and not self.started:
            self._continues = False
            if not self.gone:
                self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self.complete and (not self.gone or (self._body and not self._ended)):
            if self._body or (self._ended and not self._end_delivered):
                body, self._body = self._body, b""
                self._end_delivered = self._ended
                if len(body) > _BODY_AHEAD_BYTES:
                    self._connection.set_reading(reading=True)
                return {"type": "http.request", "body": body, "more_body": not self._ended}
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send one ASGI message. Returns when there is room for the next one."""
        if self.gone:
            return
        if not self.started:
            if message["type"] != "http.response.start":
                raise RuntimeError(f"{message['type']} came before http.response.start")
            self._begin(message["status"], message.get("headers", ()))
        elif self.complete or message["type"] != "http.response.body":
            raise RuntimeError(f"{message['type']} came where http.response.body was due")
        else:
            self._send_body(message.get("body", b""), more=message.get("more_body", False))
            if self._connection.is_behind and not self.complete:
                del message  # the transport holds its body already
                await self._connection.drained()

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        lines: list[bytes] = []
        policy, cache, closing = POLICY_HEADER, CACHE_HEADER, False
        self._remaining = None
        for header in headers:
            lines.append(b"%b: %b\r\n" % header)
            special = _SPECIAL.get(header[0])
            if special is None:
                continue
            if special == _LENGTH:
                self._remaining = int(header[1])
            elif special == _CONNECTION:
                closing = b"close" in header[1].lower()
            elif special == _POLICY:
                policy = b""
            else:
                cache = b""
        own = b"".join(lines)
        if own.count(b"\n") != len(lines) or own.count(b"\r") != len(lines) or b"\0" in own:
            raise RuntimeError("a header has a line break")
        self.started = True
        if self._remaining is None and status not in _BODILESS and self.scope["method"] != "HEAD":
            if self.scope["http_version"] == "1.0":
                self.keep_alive = False  # the end of the connection is the end of the body
            else:
                self._chunked = True
                own += b"transfer-encoding: chunked\r\n"
        if closing:
            self.keep_alive = False
        elif not self.keep_alive:
            own += b"connection: close\r\n"
        self._head = b"".join([STATUS_LINES[status], own, self._connection.headers, policy, cache, b"\r\n"])
        asyncio.get_running_loop().call_soon(self._flush)  # the first part of the body may take a while

    def _flush(self) -> None:
        if self._head and not self.gone:
            head, self._head = self._head, b""
            self._connection.transport.write(head)

    def _send_body(self, body: bytes, *, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            self._remaining, data = None, b""
        elif self._chunked:
            data = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                data += b"0\r\n\r\n"
        else:
            data = body
            if self._remaining is not None:
                self._remaining -= len(body)
                if self._remaining < 0 or (self._remaining and not more):
                    raise RuntimeError("the body does not match its Content-Length")
        if self._head:
            if len(data) <= _JOINED_BYTES:
                data, self._head = self._head + data, b""
            else:
                self._flush()
        if data:
            self._connection.transport.write(data)
        if not more:
            self.complete = True
            self._wake()
            self._connection.answered()

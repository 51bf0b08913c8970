"""The head of a request, with the checks that the parser leaves out: anything that two HTTP implementations could read
differently is an error. Pure.
"""

from typing import Final

from bollard.host.errors import HostError
from bollard.host.http.errors import ExpectationFailed, HeadTooLarge, MalformedRequest, UnsupportedMedia
from bollard.host.limits import REQUEST_HEAD_BYTES, REQUEST_HEADERS

_HINT: Final = "send HTTP/1.1 as RFC 9112 defines it"
_SPECIAL: Final = frozenset({b"host", b"transfer-encoding", b"content-encoding", b"expect", b"upgrade"})
_UPGRADING: Final = frozenset({b"upgrade", b"connection", b"http2-settings"})


class Head:
    """One head, collected field by field."""

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
        if name in _SPECIAL:
            if name == b"host":
                self._hosts += 1
            elif name == b"expect":
                self.continues = value.lower().rstrip() == b"100-continue"
                self._refusal = self._refusal if self.continues else _unsupported_expectation()
            elif name == b"content-encoding":
                self._refusal = self._refusal if value.lower().rstrip() == b"identity" else _encoded_body()
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


def _unsupported_expectation() -> ExpectationFailed:
    return ExpectationFailed(
        "the only supported expectation is 100-continue",
        reason="expect_header",
        hint="send no other Expect header",
    )


def _encoded_body() -> UnsupportedMedia:
    return UnsupportedMedia(
        "compressed bodies are not supported",
        reason="content_encoding",
        hint="send the body without Content-Encoding",
    )


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

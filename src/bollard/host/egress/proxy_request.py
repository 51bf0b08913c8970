"""The head of a request to the proxy of workers, parsed strictly (RFC 9112). Pure.

Anything that two parsers could read differently is refused: a folded header, a bare line feed, two lengths, or a length
beside chunks.
"""

import re
from typing import Final, Literal

import msgspec

from bollard.host.egress.destination import Destination

_REQUEST: Final = re.compile(r"([A-Z][A-Z-]{0,31}) ([!-~]{1,8192}) HTTP/1\.([01])")
_HEADER: Final = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}):([\t\x20-\x7e\x80-\xff]*)")
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,255}):([1-9][0-9]{0,4})")
_LENGTH: Final = re.compile(r"[0-9]{1,15}")
_HOP: Final = frozenset({"connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"})
"""Headers of one connection, which are never forwarded. Those with `proxy-` are not either."""
_ONCE: Final = frozenset({"content-length", "host", "transfer-encoding", "proxy-authorization", "expect"})
_PORT_MAX: Final = 65535
Headers = tuple[tuple[str, str], ...]


class BadRequest(Exception):
    """The client does not speak the protocol. `status` is the status of the response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ProxyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a worker sent to the proxy."""

    method: str
    place: Destination
    headers: Headers
    """Names in lower case."""
    is_tunnel: bool
    body: int | Literal["chunked"] = 0
    """The length of the body."""

    def header(self, name: str) -> str | None:
        """The first header of this name, which must be in lower case."""
        return next((value for each, value in self.headers if each == name), None)

    def forwarded_head(self) -> bytes:
        """The head for the destination, whose response ends the connection."""
        lines = [f"{self.method} {self.place.path} HTTP/1.1", f"host: {self.place.authority}"]
        lines += [f"{name}: {value}" for name, value in end_to_end(self.headers) if name != "host"]
        return "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1")


def end_to_end(headers: Headers) -> Headers:
    """The headers without those of one connection."""
    named = {word.strip().lower() for name, value in headers if name == "connection" for word in value.split(",")}
    drop = (named - {"content-length", "transfer-encoding", "host"}) | _HOP
    return tuple(each for each in headers if each[0] not in drop and not each[0].startswith("proxy-"))


def parse_request(head: bytes, most_headers: int) -> ProxyRequest:
    """Parse a head up to its empty line. Raises `BadRequest`."""
    first, *lines = _lines(head)
    match = _REQUEST.fullmatch(first)
    if match is None:
        raise BadRequest(400, "the request line is not METHOD TARGET HTTP/1.1")
    method, target = match[1], match[2]
    if match[3] == "0" and method != "CONNECT":  # Python before 3.12 opens its tunnels with HTTP/1.0
        raise BadRequest(400, "the request line is not METHOD TARGET HTTP/1.1")
    headers = _headers(lines, most_headers)
    body = _body(headers)
    if method != "CONNECT":
        return ProxyRequest(method=method, place=_absolute(target), headers=headers, is_tunnel=False, body=body)
    if body:
        raise BadRequest(400, "a CONNECT has no body")
    return ProxyRequest(method=method, place=_authority(target), headers=headers, is_tunnel=True)


class ResponseHead(msgspec.Struct, frozen=True, kw_only=True):
    """The head of the destination's response."""

    status: int
    reason: str
    headers: Headers
    body: int | Literal["chunked"] | None
    """The length of the body; `None` if the end of the connection ends it."""

    def forwarded(self) -> bytes:
        """The head for the client. A final one ends the connection."""
        lines = [f"HTTP/1.1 {self.status} {self.reason}"]
        lines += [f"{name}: {value}" for name, value in end_to_end(self.headers)]
        ends = [] if self.status < 200 else ["connection: close"]
        return "\r\n".join([*lines, *ends, "", ""]).encode("latin-1")


_STATUS: Final = re.compile(r"HTTP/1\.[01] ([1-5][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?")


def parse_response(head: bytes, most_headers: int, method: str) -> ResponseHead:
    """Parse a head up to its empty line. Raises `BadRequest`."""
    first, *lines = _lines(head)
    match = _STATUS.fullmatch(first)
    if match is None:
        raise BadRequest(502, "the destination does not answer with HTTP/1.1")
    status = int(match[1])
    if status == 101:
        raise BadRequest(502, "the destination switches the protocol, which needs CONNECT")
    headers = _headers(lines, most_headers)
    names = {name for name, _ in headers}
    body: int | Literal["chunked"] | None = _body(headers) if names & {"content-length", "transfer-encoding"} else None
    if method == "HEAD" or status < 200 or status in (204, 304):
        body = 0
    return ResponseHead(status=status, reason=match[2] or "", headers=headers, body=body)


def _lines(head: bytes) -> list[str]:
    text = head.removesuffix(b"\r\n\r\n")
    if b"\0" in text or text.count(b"\n") != text.count(b"\r\n") or text.count(b"\r") != text.count(b"\r\n"):
        raise BadRequest(400, "the head has a bare line end or a zero byte")
    return text.decode("latin-1").split("\r\n")


def _headers(lines: list[str], most: int) -> Headers:
    if len(lines) > most:
        raise BadRequest(431, f"the head has more than {most} headers")
    headers: list[tuple[str, str]] = []
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is None:
            raise BadRequest(400, "a header is not NAME: VALUE on one line")
        headers.append((match[1].lower(), match[2].strip(" \t")))
    names = [name for name, _ in headers if name in _ONCE]
    if len(names) != len(set(names)):
        raise BadRequest(400, "a header that must be unique stands twice")
    return tuple(headers)


def _body(headers: Headers) -> int | Literal["chunked"]:
    length = next((value for name, value in headers if name == "content-length"), None)
    coding = next((value for name, value in headers if name == "transfer-encoding"), None)
    if coding is not None and (length is not None or coding.lower() != "chunked"):
        raise BadRequest(400, "the transfer-encoding is not chunked alone, or stands beside a content-length")
    if coding is not None:
        return "chunked"
    if length is None:
        return 0
    if _LENGTH.fullmatch(length) is None:
        raise BadRequest(400, "the content-length is no number")
    return int(length)


def _authority(target: str) -> Destination:
    match = _AUTHORITY.fullmatch(target)
    if match is None or int(match[2]) > _PORT_MAX:
        raise BadRequest(400, "the target of CONNECT is not HOST:PORT")
    return Destination(scheme="http", host=match[1].strip("[]").lower(), port=int(match[2]), path="/")


def _absolute(target: str) -> Destination:
    try:
        place = Destination.of(target)
    except ValueError as error:
        raise BadRequest(400, "the target is not an absolute http URL, as in http://host/path") from error
    if place.scheme != "http":
        raise BadRequest(400, "an https URL needs CONNECT")
    return place

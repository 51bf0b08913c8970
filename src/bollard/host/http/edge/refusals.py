"""Security headers of every response, and errors that the server sends before there is a request to answer.

The headers are bytes that are built once: the head of a response is on the hot path.
"""

from http import HTTPStatus
from typing import Final

from bollard.host.errors import HostError
from bollard.host.http.answers import error_answer

_FIXED: Final = (
    b"x-content-type-options: nosniff\r\n"
    b"x-frame-options: DENY\r\n"
    b"referrer-policy: no-referrer\r\n"
    b"cross-origin-opener-policy: same-origin\r\n"
    b"cross-origin-resource-policy: same-origin\r\n"
)
_ONLY_TLS: Final = b"strict-transport-security: max-age=31536000\r\n"
POLICY_HEADER: Final = (
    b"content-security-policy: "
    b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox\r\n"
)
"""For every response without a policy of its own: it is not a page."""
CACHE_HEADER: Final = b"cache-control: no-store\r\n"
"""For every response without a `Cache-Control` of its own."""


def fixed_headers(*, tls: bool) -> bytes:
    """The headers that are the same in every response of a host."""
    return _FIXED + _ONLY_TLS if tls else _FIXED


_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
STATUS_LINES: Final = {
    status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode() for status in range(100, 600)
}


def encode_error(error: HostError, fixed: bytes) -> bytes:
    """An error as the last response of its connection, as bytes; `fixed` are the headers of every response."""
    answer = error_answer(error)
    lines = [b"%b: %b\r\n" % header for header in answer.raw_headers]
    head = [STATUS_LINES[answer.status_code], *lines, fixed, POLICY_HEADER, CACHE_HEADER, b"connection: close\r\n\r\n"]
    return b"".join([*head, bytes(answer.body)])

"""What every answer carries, whatever it is: the headers that tell a browser to do as little as possible with it.

They are bytes that are made once: an answer's head is on the hot path.
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
"""For every answer that does not bring its own policy: nothing of it is a page."""
CACHE_HEADER: Final = b"cache-control: no-store\r\n"
"""For every answer that does not say how long it may be kept."""


def fixed_headers(*, tls: bool) -> bytes:
    """The same for every answer of a host."""
    return _FIXED + _ONLY_TLS if tls else _FIXED


# Refusals that the server itself makes, before there is a request that could be answered: whole answers as bytes.


_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
STATUS_LINES: Final = {
    status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode() for status in range(100, 600)
}


def refused(error: HostError, fixed: bytes) -> bytes:
    """A typed error as the last answer of its connection; `fixed` is what every answer carries."""
    answer = error_answer(error)
    lines = [b"%b: %b\r\n" % header for header in answer.raw_headers]
    head = [STATUS_LINES[answer.status_code], *lines, fixed, POLICY_HEADER, CACHE_HEADER, b"connection: close\r\n\r\n"]
    return b"".join([*head, bytes(answer.body)])

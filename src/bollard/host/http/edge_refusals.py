"""Refusals that the server itself makes, before there is a request that could be answered: whole answers as bytes."""

from http import HTTPStatus
from typing import Final

from bollard.host.errors import HostError
from bollard.host.http.answers import error_answer
from bollard.host.http.edge_headers import CACHE_HEADER, POLICY_HEADER

__all__ = ["STATUS_LINES", "refused"]

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

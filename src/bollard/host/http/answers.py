"""Headers and JSON bodies of requests, JSON responses, errors as responses, and the headers of every response."""

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Scope

from bollard.host.errors import HostError, InvalidRequest, PayloadTooLarge, RateExceeded
from bollard.host.secrets.redactor import Scrubber
from bollard.protocol import JsonObject
from bollard.protocol.limits import MIB
from bollard.wire import FrameError, decode, encode

BODY_BYTES: Final = 1 * MIB
STATUS: Final[Mapping[str, int]] = {
    "not_found": 404,
    "invalid_argument": 400,
    "payload_too_large": 413,
    "unsupported_media_type": 415,
    "unauthenticated": 401,
    "unauthorized": 403,
    "forbidden_origin": 403,
    "forbidden_host": 421,
    "malformed_request": 400,
    "expectation_failed": 417,
    "request_timeout": 408,
    "head_too_large": 431,
    "too_many_connections": 503,
    "method_not_allowed": 405,
    "conflict": 409,
    "precondition_failed": 412,
    "range_not_satisfiable": 416,
    "idempotency_mismatch": 422,
    "upgrade_required": 426,
    "consent_needed": 409,
    "plugin_unusable": 422,
    "rate_limited": 429,
    "budget_exceeded": 429,
    "draining": 503,
    "storage_full": 507,
    "storage_unavailable": 503,
    "storage_stalled": 503,
    "audit_unavailable": 503,
    "worker_unavailable": 503,
    "knowledge_unavailable": 503,
    "catalogue_unavailable": 502,
    "fenced": 409,
    "runtime_error": 500,
}
"""The HTTP status of every error code."""
_FIXED: Final[Mapping[str, Mapping[str, str]]] = {
    "unauthenticated": {"www-authenticate": "Bearer"},
    "upgrade_required": {"upgrade": "websocket"},
}
"""Headers that HTTP requires for these errors."""


class JsonAnswer(Response):
    """A JSON response."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encode(content)


def error_body(error: HostError) -> JsonObject:
    """The error as JSON."""
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "retryable": error.retryable,
        "details": error.details,
        "docs": f"docs/reference/http.md#{error.code}",
    }


def error_answer(error: HostError, hidden: Scrubber | None = None) -> JsonAnswer:
    """The error as a response, without the secrets that `hidden` removes."""
    body = error_body(error)
    if hidden is not None and hidden.active:
        body |= {"message": hidden.text(error.message), "hint": hidden.text(error.hint)}
        body["details"] = hidden.kept(error.details, frozenset())
    return JsonAnswer({"error": body}, status_code=STATUS.get(error.code, 500), headers=_headers(error))


def _headers(error: HostError) -> dict[str, str] | None:
    """`Retry-After` in whole seconds (`details.retry_after_s` is more exact) and the `RateLimit` headers."""
    if error.code in _FIXED:
        return {**_FIXED[error.code]}
    wait_s = error.details.get("retry_after_s")
    if not isinstance(wait_s, int | float):
        return {"retry-after": "1"} if error.retryable else None
    wait = str(max(1, math.ceil(wait_s)))
    if not isinstance(error, RateExceeded):
        return {"retry-after": wait}
    whose, limit, window = (error.details[name] for name in ("whose", "limit", "window_s"))
    return {
        "retry-after": wait,
        "ratelimit-policy": f'"{whose}";q={limit};w={window}',
        "ratelimit": f'"{whose}";r=0;t={wait}',
    }


def header_of(scope: Scope, name: bytes) -> str | None:
    """The first header with this name, which is in lower case. Not `Headers`, because this runs for every run."""
    for found, value in scope["headers"]:
        if found == name:
            return str(value, "latin-1")
    return None


async def read_bytes(request: Request) -> bytes:
    """Read the body of a request; raises `PayloadTooLarge`."""
    length = header_of(request.scope, b"content-length")
    if length is not None and (not length.isdigit() or int(length) > BODY_BYTES):
        raise body_too_large(BODY_BYTES)
    body, more = b"", True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > BODY_BYTES:
            raise body_too_large(BODY_BYTES)
    return body


async def read_body(request: Request) -> JsonObject:
    """Read the JSON object of a request; raises `InvalidRequest`."""
    body = await read_bytes(request)
    try:
        value = decode(body or b"{}")
    except FrameError as error:
        raise not_json(error.detail, error.fault) from error
    if not isinstance(value, dict):
        raise not_an_object()
    return cast("JsonObject", value)


def body_too_large(limit: int, *, reason: str = "body", hint: str = "send less") -> PayloadTooLarge:
    return PayloadTooLarge(
        f"the body is larger than {limit} bytes", reason=reason, hint=hint, field="body", max_bytes=limit
    )


def not_json(problem: str, fault: str) -> InvalidRequest:
    return InvalidRequest(
        f"the body is not JSON: {problem}",
        reason="not_json",
        hint="send one JSON object",
        field="body",
        fault=fault,
        problem=problem,
        problem_type=f"json.{fault}",
    )


def not_an_object() -> InvalidRequest:
    return InvalidRequest(
        "the body is not a JSON object", reason="not_an_object", hint="send one JSON object", field="body"
    )


def internal_error() -> HostError:
    """The error for an exception that nothing handled: a bug of the host."""
    return HostError(
        "the host failed because of a bug", reason="internal", hint="see the log of the host, and report the bug"
    )


# --- bytes that are built once: the head of a response is on the hot path ---

_EVERY_RESPONSE: Final = (
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
    return _EVERY_RESPONSE + _ONLY_TLS if tls else _EVERY_RESPONSE


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

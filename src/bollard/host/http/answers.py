"""JSON in and out of the API: bodies with a limit, errors with a code, a sentence, a hint and a link."""

import math
from collections.abc import Mapping
from typing import Any, Final, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from bollard.host.errors import HostError, InvalidRequest, PayloadTooLarge
from bollard.protocol import JsonObject
from bollard.protocol.limits import MIB
from bollard.wire import FrameError, decode, encode

__all__ = ["JsonAnswer", "error_answer", "read_body"]

BODY_BYTES: Final = 1 * MIB
_STATUS: Final[Mapping[str, int]] = {
    "not_found": 404,
    "invalid_argument": 400,
    "payload_too_large": 413,
    "unauthenticated": 401,
    "unauthorized": 403,
    "method_not_allowed": 405,
    "conflict": 409,
    "rate_limited": 429,
    "budget_exceeded": 429,
    "storage_full": 507,
    "storage_unavailable": 503,
    "worker_unavailable": 503,
}


class JsonAnswer(Response):
    """A JSON response."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encode(content)


def error_answer(error: HostError) -> JsonAnswer:
    """What every refusal looks like."""
    body: JsonObject = {
        "error": {
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
            "retryable": error.retryable,
            "details": error.details,
            "docs": f"docs/reference/http.md#{error.code}",
        }
    }
    return JsonAnswer(body, status_code=_STATUS.get(error.code, 500), headers=_retry_after(error))


def _retry_after(error: HostError) -> dict[str, str] | None:
    """In whole seconds, as the header wants it; `details` may say it more exactly."""
    wait_s = error.details.get("retry_after_s")
    if isinstance(wait_s, int | float):
        return {"retry-after": str(max(1, math.ceil(wait_s)))}
    return {"retry-after": "1"} if error.retryable else None


async def read_body(request: Request) -> JsonObject:
    """The JSON object of a request; raises `InvalidRequest`."""
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > BODY_BYTES:
        raise PayloadTooLarge(f"the body is larger than {BODY_BYTES} bytes", hint="send less", field="body")
    body, more = b"", True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > BODY_BYTES:
            raise PayloadTooLarge(f"the body is larger than {BODY_BYTES} bytes", hint="send less", field="body")
    try:
        value = decode(body or b"{}")
    except FrameError as error:
        raise InvalidRequest(
            f"the body is not JSON: {error.detail}", hint="send one JSON object", field="body", fault=error.fault
        ) from error
    if not isinstance(value, dict):
        raise InvalidRequest("the body is not an object", hint="send one JSON object", field="body")
    return cast("JsonObject", value)

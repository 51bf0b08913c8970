"""Errors of operations in OpenAPI: the meaning and an example of each code, and the codes of each operation. Pure."""

from collections.abc import Mapping
from typing import Final

import msgspec

from bollard.host.http.answers import STATUS
from bollard.host.http.operations import Operation
from bollard.protocol import JsonObject, JsonValue


class ErrorWords(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of a code and an example."""

    summary: str
    message: str
    hint: str
    retryable: bool = False
    details: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])

    def example(self, code: str) -> JsonObject:
        """The body of the example."""
        return {
            "error": {
                "code": code,
                "message": self.message,
                "hint": self.hint,
                "retryable": self.retryable,
                "details": self.details,
                "docs": f"docs/reference/http.md#{code}",
            }
        }


ERROR_WORDS: Final[Mapping[str, ErrorWords]] = {
    "not_found": ErrorWords(
        summary="The resource does not exist, or is not visible to the caller.",
        message="there is no such run",
        hint="`bollard runs` lists the newest",
    ),
    "invalid_argument": ErrorWords(
        summary="A field or a parameter is missing, unknown or out of range.",
        message="there is no parameter colour",
        hint="this operation has no parameters",
        details={"reason": "query_none", "field": "colour"},
    ),
    "payload_too_large": ErrorWords(
        summary="The body is larger than its limit.",
        message="the body is larger than 1048576 bytes",
        hint="send less",
        details={"reason": "body", "field": "body", "max_bytes": 1048576},
    ),
    "unsupported_media_type": ErrorWords(
        summary="The media type of the body is not supported.",
        message="application/cloudevents+avro is not supported",
        hint="send application/cloudevents+json or application/cloudevents-batch+json",
        details={"reason": "cloudevents_format", "field": "body", "media": "application/cloudevents+avro"},
    ),
    "unauthenticated": ErrorWords(
        summary="The token is missing or invalid.",
        message="this needs a token",
        hint="send `Authorization: Bearer …` with an API key, or the admin token that the first start printed",
        details={"reason": "token_required"},
    ),
    "unauthorized": ErrorWords(
        summary="The caller may not do this.",
        message="this needs the right agents.write",
        hint="ask an admin of the workspace for a role or a key that has it",
        details={"reason": "right", "right": "agents.write"},
    ),
    "forbidden_origin": ErrorWords(
        summary="The request comes from a page of another site, or from a browser without an `Origin` header.",
        message="pages of https://other.example may not use this host",
        hint="to allow them, add https://other.example to the setting origins",
        details={"reason": "origin", "origin": "https://other.example"},
    ),
    "forbidden_host": ErrorWords(
        summary="The `Host` header is not a name of this host.",
        message="other.example is not a name of this host",
        hint="add the name to the setting allowed_hosts, or its URL to origins",
        details={"reason": "host_name", "name": "other.example"},
    ),
    "malformed_request": ErrorWords(
        summary="The request is not valid HTTP, or two programs could read it differently.",
        message="the request has more than one Host header",
        hint="send HTTP/1.1 as RFC 9112 defines it",
        details={"reason": "two_host_headers"},
    ),
    "expectation_failed": ErrorWords(
        summary="The `Expect` header has another value than `100-continue`.",
        message="the only supported expectation is 100-continue",
        hint="send no other Expect header",
        details={"reason": "expect_header"},
    ),
    "request_timeout": ErrorWords(
        summary="The request arrived too slowly; it had no effect.",
        message="the head of the request arrived too slowly",
        hint="send it without pauses of 10 s",
        retryable=True,
        details={"reason": "head", "seconds": 10.0},
    ),
    "head_too_large": ErrorWords(
        summary="The head of the request is larger than its limit.",
        message="the request head is larger than 32768 bytes or 100 headers",
        hint="send shorter headers and a shorter URL",
        details={"reason": "head", "max_bytes": 32768, "max_headers": 100},
    ),
    "too_many_connections": ErrorWords(
        summary="Too many connections are open.",
        message="12000 connections are open",
        hint="retry in a moment",
        retryable=True,
        details={"reason": "host_limit", "limit": 12000},
    ),
    "method_not_allowed": ErrorWords(
        summary="The path does not support this method.",
        message="this path does not support PATCH",
        hint="use GET, HEAD, POST",
        details={"reason": "method", "method": "PATCH", "methods": "GET, HEAD, POST"},
    ),
    "conflict": ErrorWords(
        summary="The state of the resource does not allow this.",
        message="the run has ended: completed",
        hint="there is nothing to cancel",
        details={"status": "completed"},
    ),
    "precondition_failed": ErrorWords(
        summary="The resource is not at the revision in `If-Match` or `If-None-Match`.",
        message="the resource is not at the revision of If-Match",
        hint="read it again and repeat the change",
        details={"reason": "if_match", "revision": 4},
    ),
    "range_not_satisfiable": ErrorWords(
        summary="The range is outside of the content.",
        message="the range is outside of the content, which has 22 bytes",
        hint="request a range inside of the content",
        details={"reason": "range", "size": 22},
    ),
    "idempotency_mismatch": ErrorWords(
        summary="The `Idempotency-Key` was used for another request.",
        message="this Idempotency-Key was used for another request",
        hint="use a new key for a new request; repeat a request exactly as it was",
        details={"reason": "other_request"},
    ),
    "upgrade_required": ErrorWords(
        summary="The path is a WebSocket, and the request is plain HTTP.",
        message="this path is a WebSocket",
        hint="connect with ws:// or wss://, or read the run's …/stream",
        details={"reason": "websocket"},
    ),
    "consent_needed": ErrorWords(
        summary="The plugin needs consent for its rights; send `details.consent` to give it.",
        message="acme/parrot asks for more than was consented to",
        hint="send the same again with details.consent as consent",
        details={"consent": "9f2c1e0a77"},
    ),
    "plugin_unusable": ErrorWords(
        summary="No worker of this plugin could start, so it was not installed.",
        message="no worker of acme/parrot could be started",
        hint="details.problem says why; try it with `bollard plugin dev`",
        details={"problem": "ModuleNotFoundError: No module named 'parrot'"},
    ),
    "rate_limited": ErrorWords(
        summary="A limit is reached; retry later.",
        message="more than 300000 requests in a minute",
        hint="wait as long as Retry-After says, or ask less often",
        retryable=True,
        details={"reason": "request_rate", "retry_after_s": 0.2, "limit": 300000, "window_s": 60, "whose": "identity"},
    ),
    "budget_exceeded": ErrorWords(
        summary="A budget of the agent is used up.",
        message="agent parrot has had its 100 runs of today",
        hint="wait for the next day (UTC), or raise budget.runs_per_day",
        details={"retry_after_s": 3600},
    ),
    "draining": ErrorWords(
        summary="This host accepts no new work; use another one, or retry later.",
        message="the host takes nothing new",
        hint="send work to another host, or later",
        retryable=True,
    ),
    "storage_full": ErrorWords(
        summary="The store has no space left; nothing was written.",
        message="the disk is full, so nothing new is taken",
        hint="free space in the data directory",
        retryable=True,
    ),
    "storage_unavailable": ErrorWords(
        summary="The store is unavailable; nothing was written.",
        message="the store cannot be used now",
        hint="try again in a moment; the host's log says more",
        retryable=True,
    ),
    "storage_stalled": ErrorWords(
        summary="The journal or the store did not respond in time; the outcome of the request is not known yet.",
        message="no response from the journal for 5 s: the outcome of this request is not known yet",
        hint="repeat the request with the same Idempotency-Key or event id: it returns the first outcome",
        retryable=True,
        details={"reason": "no_response", "outcome": "unknown", "waits_for": "journal", "retry_after_s": 5.0},
    ),
    "audit_unavailable": ErrorWords(
        summary="The audit record could not be written in time, so nothing was done.",
        message="this could not be written down in time",
        hint="the disk is slow or full; look at `bollard doctor`, and try again",
    ),
    "worker_unavailable": ErrorWords(
        summary="No worker can run this plugin now.",
        message="no worker of local/parrot is ready",
        hint="`bollard plugin show` says why",
        retryable=True,
    ),
    "knowledge_unavailable": ErrorWords(
        summary="Knowledge bases are unavailable.",
        message="the knowledge process does not answer",
        hint="try again in a moment; the host's log says more",
        retryable=True,
    ),
    "fenced": ErrorWords(
        summary="Another host owns the run, or it has ended; the data was discarded.",
        message="this host does not own the run any more",
        hint="read the run again",
    ),
    "runtime_error": ErrorWords(
        summary="A bug of the host.",
        message="the host failed because of a bug",
        hint="see the log of the host, and report the bug",
        details={"reason": "internal"},
    ),
}
"""The meaning and an example of every code."""
_EVERY: Final = (
    "invalid_argument",
    "malformed_request",
    "forbidden_origin",
    "request_timeout",
    "forbidden_host",
    "unsupported_media_type",
    "expectation_failed",
    "rate_limited",
    "head_too_large",
    "runtime_error",
    "too_many_connections",
)
"""Codes of any request: from the server, the edge or the check of the query."""
_GUARDED: Final = ("unauthenticated", "not_found", "storage_unavailable", "storage_stalled")
"""Codes of operations that need a token."""
_KEYED: Final = ("conflict", "idempotency_mismatch")
"""Codes of operations that save responses for an `Idempotency-Key`."""


def errors_of(operation: Operation) -> frozenset[str]:
    """Every code of an operation: its own, and those of its kind."""
    codes = {*_EVERY, *operation.errors}
    if operation.body is not None:
        codes.add("payload_too_large")
    if not operation.open:
        codes.update(_GUARDED)
        if operation.right is not None:
            codes.add("unauthorized")
        if operation.method not in ("GET", "OPTIONS"):
            codes.add("storage_full")
        if operation.method == "POST" and operation.repeat != "own":
            codes.update((*_KEYED, "payload_too_large"))
    return frozenset(codes)


def errors_by_status(operation: Operation) -> dict[int, list[str]]:
    """The codes by status, the most specific first."""
    by_status: dict[int, list[str]] = {}
    codes = errors_of(operation)
    for code in sorted(STATUS, key=lambda code: (code not in operation.errors, code in _EVERY)):
        if code in codes:
            by_status.setdefault(STATUS[code], []).append(code)
    return dict(sorted(by_status.items()))

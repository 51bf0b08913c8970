"""Errors that only an HTTP request can cause: a branch of the host's error tree.

HostError
├── UnsupportedMedia    the media type of a body is not supported
├── Conflict
│   └── InFlight        the same request is in progress
├── PreconditionFailed  the resource is at another revision
├── RepeatMismatch      an Idempotency-Key was reused for another request
├── RangeNotSatisfiable the requested range holds no byte of the content
├── StorageStalled      the journal or the store does not respond; the outcome is not known yet
├── UpgradeRequired     a WebSocket endpoint got a plain HTTP request
├── ForbiddenOrigin     a browser sent the request from another site
├── ForbiddenHost       the Host header names another host
├── ExpectationFailed   the Expect header is not supported
├── MalformedRequest    the bytes are not an unambiguous HTTP request
├── RequestTimeout      the request arrived too slowly
├── HeadTooLarge        the head of the request is larger than its limit
└── Overloaded
    └── TooManyConnections  the connection table is full
"""

from bollard.host.errors import Conflict, HostError, Overloaded


class UnsupportedMedia(HostError):
    """The media type of a body is not supported."""

    code = "unsupported_media_type"


class InFlight(Conflict):
    """A request with the same Idempotency-Key is in progress."""

    retryable = True


class PreconditionFailed(HostError):
    """`If-Match` or `If-None-Match` does not hold; `details.revision` is the current revision."""

    code = "precondition_failed"


class RepeatMismatch(HostError):
    """An Idempotency-Key was reused for another request."""

    code = "idempotency_mismatch"


class RangeNotSatisfiable(HostError):
    """The requested range holds no byte of the content."""

    code = "range_not_satisfiable"


class StorageStalled(HostError):
    """The journal or the store did not respond in time. The operation continues, and may still succeed or fail.
    `details.waits_for` names the part that does not respond."""

    code = "storage_stalled"
    retryable = True


class UpgradeRequired(HostError):
    """A WebSocket endpoint got a plain HTTP request."""

    code = "upgrade_required"


class ForbiddenOrigin(HostError):
    """A browser sent the request from another site."""

    code = "forbidden_origin"


class ForbiddenHost(HostError):
    """The Host header names another host."""

    code = "forbidden_host"


class ExpectationFailed(HostError):
    """The Expect header is not supported. The request had no effect."""

    code = "expectation_failed"


class MalformedRequest(HostError):
    """The bytes are not an unambiguous HTTP request. The request had no effect."""

    code = "malformed_request"


class RequestTimeout(HostError):
    """The request arrived too slowly. It had no effect."""

    code = "request_timeout"
    retryable = True


class HeadTooLarge(HostError):
    """The head of the request is larger than its limit."""

    code = "head_too_large"


class TooManyConnections(Overloaded):
    """The connection table is full."""

    code = "too_many_connections"

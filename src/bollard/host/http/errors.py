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
├── ExpectationFailed   the Expect header is not supported; the request had no effect
├── MalformedRequest    the bytes are not an unambiguous HTTP request; it had no effect
├── RequestTimeout      the request arrived too slowly; it had no effect
├── HeadTooLarge        the head of the request is larger than its limit
└── Overloaded
    └── TooManyConnections  the connection table is full
"""

from bollard.host.errors import Conflict, HostError, Overloaded


class UnsupportedMedia(HostError):
    code = "unsupported_media_type"


class InFlight(Conflict):
    retryable = True


class PreconditionFailed(HostError):
    """`If-Match` or `If-None-Match` does not hold; `details.revision` is the current revision."""

    code = "precondition_failed"


class RepeatMismatch(HostError):
    code = "idempotency_mismatch"


class RangeNotSatisfiable(HostError):
    code = "range_not_satisfiable"


class StorageStalled(HostError):
    """The journal or the store did not respond in time. The operation continues, and may still succeed or fail.
    `details.waits_for` names the part that does not respond."""

    code = "storage_stalled"
    retryable = True


class UpgradeRequired(HostError):
    code = "upgrade_required"


class ForbiddenOrigin(HostError):
    code = "forbidden_origin"


class ForbiddenHost(HostError):
    code = "forbidden_host"


class ExpectationFailed(HostError):
    code = "expectation_failed"


class MalformedRequest(HostError):
    code = "malformed_request"


class RequestTimeout(HostError):
    code = "request_timeout"
    retryable = True


class HeadTooLarge(HostError):
    code = "head_too_large"


class TooManyConnections(Overloaded):
    code = "too_many_connections"

"""What only a request can be refused for, a branch of the host's tree of errors.

HostError
├── UnsupportedMedia    a body is of a kind that nobody reads here
├── Conflict
│   └── InFlight        the same request is being answered
├── PreconditionFailed  the thing is not at the revision that was named
├── RepeatMismatch      an Idempotency-Key came again with another request
├── RangeNotSatisfiable no byte of the content is in the range that was asked for
├── StorageStalled      the journal or the store does not answer, so the outcome is not known yet
├── UpgradeRequired     a WebSocket was asked for as a page
├── ForbiddenOrigin     a browser asks for a page of another site
├── ForbiddenHost       the request was meant for another name than this host's
├── ExpectationFailed   the client expects what no host does
├── MalformedRequest    what came is no HTTP request that two readers would read alike
├── RequestTimeout      a request came too slowly
├── HeadTooLarge        the head of a request is larger than its limit
└── Overloaded
    └── TooManyConnections  there is no place for another connection
"""

from bollard.host.errors import Conflict, HostError, Overloaded


class UnsupportedMedia(HostError):
    """A body is of a kind that nobody reads here."""

    code = "unsupported_media_type"


class InFlight(Conflict):
    """A request with the same Idempotency-Key is being answered."""

    retryable = True


class PreconditionFailed(HostError):
    """`If-Match` or `If-None-Match` does not hold; `details.revision` is the one that is there."""

    code = "precondition_failed"


class RepeatMismatch(HostError):
    """An Idempotency-Key came again with another request."""

    code = "idempotency_mismatch"


class RangeNotSatisfiable(HostError):
    """No byte of the content is in the range that was asked for."""

    code = "range_not_satisfiable"


class StorageStalled(HostError):
    """The journal or the store has not answered in time. The operation goes on: it may still be done or refused.
    `details.waits_for` names what does not answer."""

    code = "storage_stalled"
    retryable = True


class UpgradeRequired(HostError):
    """A WebSocket was asked for as a page."""

    code = "upgrade_required"


class ForbiddenOrigin(HostError):
    """A browser asks for a page of another site."""

    code = "forbidden_origin"


class ForbiddenHost(HostError):
    """The request was meant for another name than this host's."""

    code = "forbidden_host"


class ExpectationFailed(HostError):
    """The client expects what no host does; nothing of its request was done."""

    code = "expectation_failed"


class MalformedRequest(HostError):
    """What came is no HTTP request that two readers would read alike; nothing of it was done."""

    code = "malformed_request"


class RequestTimeout(HostError):
    """A request came too slowly; nothing of it was done."""

    code = "request_timeout"
    retryable = True


class HeadTooLarge(HostError):
    """The head of a request is larger than its limit."""

    code = "head_too_large"


class TooManyConnections(Overloaded):
    """There is no place for another connection."""

    code = "too_many_connections"

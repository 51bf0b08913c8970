"""A call of the run API that is refused, as its handlers raise it. The gate turns it into the protocol's error."""

from bollard.host.errors import HostError
from bollard.protocol import AgentAPIError, ErrorCode, JsonObject

__all__ = ["ApiRefused", "refusal_of"]

_CODES: dict[str, ErrorCode] = {
    "not_found": "not_found",
    "invalid_argument": "invalid_argument",
    "payload_too_large": "payload_too_large",
    "conflict": "invalid_argument",
    "unauthorized": "capability_denied",
    "budget_exceeded": "budget_exceeded",
    "rate_limited": "rate_limited",
    "storage_full": "storage_full",
    "storage_unavailable": "audit_unavailable",
}


class ApiRefused(Exception):
    """The code is one of §7; the sentence never holds an id that the run may not know of."""

    def __init__(self, code: ErrorCode, message: str, *, retryable: bool = False, details: JsonObject | None = None):
        super().__init__(message)
        self.error = AgentAPIError(code=code, message=message, retryable=retryable, details=details or {})


def refusal_of(error: HostError) -> AgentAPIError:
    """A host's error as a runner gets it."""
    code = _CODES.get(error.code, "runtime_error")
    return AgentAPIError(code=code, message=error.message, retryable=error.retryable, details=error.details)

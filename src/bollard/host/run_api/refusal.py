"""Refusals of the run API, which the gate turns into errors of the protocol, and checks that handlers share."""

import asyncio

from bollard.host.errors import HostError, ModelFailed
from bollard.host.grants.check import Denied
from bollard.host.log.entries import ExpectationResult, StateExpectation
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.recorder import into
from bollard.host.store.artifact_terms import ArtifactTerms, name_problem
from bollard.host.store.keys import key_problem
from bollard.protocol import AgentAPIError, ErrorCode, JsonObject

_CODES: dict[str, ErrorCode] = {
    "not_found": "not_found",
    "invalid_argument": "invalid_argument",
    "payload_too_large": "payload_too_large",
    "conflict": "invalid_argument",
    "unauthorized": "capability_denied",
    "budget_exceeded": "budget_exceeded",
    "rate_limited": "rate_limited",
    "draining": "rate_limited",
    "storage_full": "storage_full",
    "storage_unavailable": "audit_unavailable",
    "approval_denied": "approval_denied",
    "approval_expired": "approval_expired",
    "approval_required": "approval_required",
    "audit_unavailable": "audit_unavailable",
    "cancelled": "cancelled",
    "capability_denied": "capability_denied",
    "egress_denied": "capability_denied",
    "outcome_unknown": "outcome_unknown",
    "revoked": "revoked",
    "sandbox_unavailable": "capability_denied",
    "tool_failed": "tool_failed",
    "knowledge_unavailable": "runtime_error",
}
_MODEL_REASONS: dict[str, ErrorCode] = {
    "rate_limited": "rate_limited",
    "timeout": "deadline_exceeded",
    "context_length": "payload_too_large",
}
"""Reasons of failed model calls that have a code in §7."""


class ApiRefused(Exception):
    """A refused call. The code is one of §7. The message never contains an id that the run may not know."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        retryable: bool = False,
        details: JsonObject | None = None,
        hint: str = "",
    ):
        super().__init__(message)
        self.error = AgentAPIError(code=code, message=message, retryable=retryable, details=details or {}, hint=hint)

    @classmethod
    def of(cls, denied: Denied) -> "ApiRefused":
        """The refusal of a call that the grant does not allow."""
        return cls(denied.code, denied.sentence, hint=denied.hint)


def protocol_code(code: str) -> ErrorCode:
    """The code of §7 for a code of the host."""
    return _CODES.get(code, "runtime_error")


def refusal_of(error: HostError) -> AgentAPIError:
    """The protocol error for an error of the host."""
    if isinstance(error, ModelFailed):
        return _of_model(error)
    return _error(protocol_code(error.code), error)


def _of_model(error: ModelFailed) -> AgentAPIError:
    """`details.reason` is more precise than the code. A call that has emitted a part is not retryable."""
    code = _MODEL_REASONS.get(str(error.details.get("reason")), "runtime_error")
    return _error(code, error)


def _error(code: ErrorCode, error: HostError) -> AgentAPIError:
    return AgentAPIError(
        code=code, message=error.message, retryable=error.retryable, details=error.details, hint=error.hint
    )


def check_key(key: str, field: str = "key") -> None:
    """Check a key of state or storage, or a call id. Refuses what some store could not store. Raises `ApiRefused`."""
    if (problem := key_problem(key)) is not None:
        raise ApiRefused("invalid_argument", f"{field}: {problem}", details={"field": field})


def check_name(field: str, text: str) -> None:
    """Check a name that is displayed to people. Raises `ApiRefused`."""
    if (problem := name_problem(text)) is not None:
        raise ApiRefused("invalid_argument", f"{field}: {problem}", details={"field": field})


def check_type(terms: ArtifactTerms, mime_type: str) -> None:
    """Check the media type of an artifact. Raises `ApiRefused`."""
    if (problem := terms.type_problem(mime_type)) is not None:
        raise ApiRefused("invalid_argument", f"mime_type: {problem}", details={"field": "mime_type"})


def secret_in_content() -> ApiRefused:
    return ApiRefused("invalid_argument", "the content contains a secret of the workspace")


def no_such_run() -> ApiRefused:
    return ApiRefused("not_found", "there is no such run")


async def write_down(
    run: LiveRun, kind: str, data: JsonObject, *, expects: StateExpectation | None = None, blob: bytes | None = None
) -> ExpectationResult:
    """Write a record of the run and return the result of its expectation once it is on disk. Raises `ApiRefused` if
    the run has ended."""
    if blob is not None and run.recorder.withholds(blob):
        raise secret_in_content()
    landed: asyncio.Future[ExpectationResult | None] = asyncio.get_running_loop().create_future()
    accepted = run.note(kind, data, into(landed), expects=expects, blob=blob)
    result = await landed if accepted else None
    if result is None:
        raise no_such_run()
    return result

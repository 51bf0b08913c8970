"""A call of the run API that is refused, as its handlers raise it. The gate turns it into the protocol's error."""

import asyncio

from bollard.host.errors import HostError, ModelFailed
from bollard.host.log.entries import ExpectationResult, StateExpectation
from bollard.host.runs.batches import into
from bollard.host.runs.live_run import LiveRun
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
"""Why a model did not answer, where §7 has a code for it."""


class ApiRefused(Exception):
    """The code is one of §7; the sentence never holds an id that the run may not know of."""

    def __init__(self, code: ErrorCode, message: str, *, retryable: bool = False, details: JsonObject | None = None):
        super().__init__(message)
        self.error = AgentAPIError(code=code, message=message, retryable=retryable, details=details or {})


def protocol_code(code: str) -> ErrorCode:
    """The code of §7 for one of the host's own."""
    return _CODES.get(code, "runtime_error")


def refusal_of(error: HostError) -> AgentAPIError:
    """A host's error as a runner gets it."""
    if isinstance(error, ModelFailed):
        return _of_model(error)
    return AgentAPIError(
        code=protocol_code(error.code), message=error.message, retryable=error.retryable, details=error.details
    )


def _of_model(error: ModelFailed) -> AgentAPIError:
    """`details.reason` says more than any code. Whoever has had a part of the answer must not ask again unawares."""
    code = _MODEL_REASONS.get(str(error.details.get("reason")), "runtime_error")
    return AgentAPIError(code=code, message=error.message, retryable=error.retryable, details=error.details)


# Names that runners give to things: what no store could keep as it is, is refused the same way over every store.


def check_key(key: str, field: str = "key") -> None:
    """A key of state or storage, or the id of a call. Raises `ApiRefused`."""
    if (problem := key_problem(key)) is not None:
        raise ApiRefused("invalid_argument", f"{field}: {problem}", details={"field": field})


def check_name(field: str, text: str) -> None:
    """A name that people will see, in one line. Raises `ApiRefused`."""
    if (problem := name_problem(text)) is not None:
        raise ApiRefused("invalid_argument", f"{field}: {problem}", details={"field": field})


def check_type(terms: ArtifactTerms, mime_type: str) -> None:
    """A media type that artifacts may have. Raises `ApiRefused`."""
    if (problem := terms.type_problem(mime_type)) is not None:
        raise ApiRefused("invalid_argument", f"mime_type: {problem}", details={"field": "mime_type"})


# Writing a record for a run that asks for something: on disk before the answer, or the run is gone.


async def write_down(
    run: LiveRun, kind: str, data: JsonObject, *, expects: StateExpectation | None = None, blob: bytes | None = None
) -> ExpectationResult:
    """What became of the expectation, once the record is on disk. Raises `ApiRefused` where it never will be."""
    if blob is not None and run.recorder.withholds(blob):
        raise ApiRefused("invalid_argument", "the content has a secret of the workspace in it")
    landed: asyncio.Future[ExpectationResult | None] = asyncio.get_running_loop().create_future()
    taken = run.note(kind, data, into(landed), expects=expects, blob=blob)
    judged = await landed if taken else None
    if judged is None:
        raise ApiRefused("not_found", "there is no such run")
    return judged

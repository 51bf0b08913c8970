"""Error codes: why a call was refused (§7), and why a run failed (§5, §8)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

from pydantic import Field

from bollard.protocol.shape import Flag, JsonObject, Tolerant

__all__ = [
    "API_ERROR_RPC_CODE",
    "ERROR_CODES",
    "ERROR_MEANINGS",
    "FAILURE_CODES",
    "FAILURE_MEANINGS",
    "AgentAPIError",
    "ErrorCode",
    "FailureCode",
    "TerminalStatus",
    "status_of_failure",
]

ErrorCode = Literal[
    "unauthorized",
    "not_found",
    "deadline_exceeded",
    "payload_too_large",
    "rate_limited",
    "invalid_argument",
    "approval_required",
    "approval_denied",
    "approval_expired",
    "capability_denied",
    "outpost_offline",
    "outcome_unknown",
    "tool_failed",
    "cancelled",
    "revoked",
    "budget_exceeded",
    "audit_unavailable",
    "storage_full",
    "runtime_error",
]

FailureCode = Literal[
    "runner.error",
    "runner.timeout",
    "runner.crashed",
    "runner.no_output",
    "runner.protocol",
    "runner.output_too_large",
    "cancelled",
    "revoked",
    "budget_exceeded",
    "host.lost",
    "host.overloaded",
]

TerminalStatus = Literal["completed", "failed", "cancelled", "timeout"]

ERROR_CODES: Final[tuple[ErrorCode, ...]] = get_args(ErrorCode)
FAILURE_CODES: Final[tuple[FailureCode, ...]] = get_args(FailureCode)

API_ERROR_RPC_CODE: Final = -32000
"""The JSON-RPC error code under which an AgentAPIError travels."""

ERROR_MEANINGS: Final[Mapping[ErrorCode, str]] = MappingProxyType(
    {
        "unauthorized": "the API family itself is not granted to this run",
        "not_found": "absent, foreign, not in the grant, or the run id is wrong or dead; one answer for all of them",
        "deadline_exceeded": "the call did not end within the run's time left",
        "payload_too_large": "the parameters or the answer exceed a limit; nothing was cut and nothing was done",
        "rate_limited": "too many calls at once or each second; try again later",
        "invalid_argument": "a parameter is missing, unknown, of the wrong type or out of range",
        "approval_required": "a person must approve this action and the agent's policy does not wait",
        "approval_denied": "the approver denied the action",
        "approval_expired": "the approval was not answered in time",
        "capability_denied": "the resource is granted, but not this operation, or a local policy forbids it",
        "outpost_offline": "the machine that has this tool is not connected",
        "outcome_unknown": "the action was started and its outcome was not learned; it is not retried",
        "tool_failed": "the tool ran and failed",
        "cancelled": "the run or the call was cancelled",
        "revoked": "an operator took this right away during the run",
        "budget_exceeded": "a budget of calls, tokens, cost or time is used up",
        "audit_unavailable": "the action could not be recorded, so it was not done",
        "storage_full": "the store has no space left",
        "runtime_error": "the host failed; the message says where to look",
    }
)

FAILURE_MEANINGS: Final[Mapping[FailureCode, str]] = MappingProxyType(
    {
        "runner.error": "the runner raised, or said that it failed",
        "runner.timeout": "the run used up its active time, or was idle too long",
        "runner.crashed": "the worker process ended while the run was active",
        "runner.no_output": "a run on a message ended without any output",
        "runner.protocol": "the worker broke the protocol",
        "runner.output_too_large": "the run recorded more bytes than it may",
        "cancelled": "the run was cancelled",
        "revoked": "an operator revoked the run's grant",
        "budget_exceeded": "a budget is used up",
        "host.lost": "the host that owned the run went away",
        "host.overloaded": "the host had no room or no worker for the run",
    }
)


def status_of_failure(code: str) -> TerminalStatus:
    """The terminal status that a failure code stands for; a code this version does not know is a failure."""
    if code in ("cancelled", "revoked"):
        return "cancelled"
    return "timeout" if code == "runner.timeout" else "failed"


class AgentAPIError(Tolerant):
    """Why the host refused or could not finish a call. The code is open: a newer host may know more of them."""

    code: str = Field(description="One of the error codes; programs decide by it.")
    message: str = Field(description="What happened, and to what; for people.")
    retryable: Flag = False
    details: JsonObject = Field(default_factory=dict)
    hint: str = Field(default="", description="What to do next; for people. Empty if the host has no advice.")

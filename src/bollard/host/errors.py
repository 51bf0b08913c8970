"""The host's errors, as one tree. Each error has a code, a reason, a sentence and a hint.

Errors that only an HTTP request can cause are in `http/errors.py`.

HostError
├── NotFound            absent, or not visible to the caller
├── InvalidRequest      a field is missing, unknown or out of range
├── PayloadTooLarge     a body is larger than its limit; the host stops reading it
├── Conflict            the current state of the resource does not allow this
├── Unauthenticated     no token, or an invalid one
├── Forbidden           the caller lacks the right
├── BudgetExceeded      a budget of the agent is used up
├── Overloaded          a named limit is reached; retry later
│   └── RateExceeded        an identity sends too many requests
├── Draining            the host is stopping or draining and accepts no new work; retry later, or use another host
├── StorageFull         the store has no space left; reading and cancelling still work
├── StorageUnavailable  the store cannot be read or written now
│   └── StoreTaken          another process wrote to the store after this host lost it
├── Fenced              this host no longer owns the run
├── SchemaTooNew        a newer version made the database
├── LogBroken           the end of the log was changed or lost
├── StoreMismatch       a row of the database was not written by the host
├── BadArchive          a backup or an export is damaged or was changed
├── WorkerUnavailable   no worker can run this plugin now
├── ConsentNeeded       a plugin requests more permissions than were granted
├── PluginUnusable      no worker of this plugin could be started
├── ApprovalDenied      the approval was denied, or no approver is available
├── ApprovalExpired     the approval was not answered in time
├── ApprovalRequired    the action needs an approval first, and the policy does not let the run wait
├── AuditUnavailable    the audit record could not be written in time, so the action was not run
├── Cancelled           the call was cancelled before it started
├── CapabilityDenied    the grant does not allow this use of the capability
├── EgressDenied        the destination may not be reached; nothing was sent
│   └── UnknownName         the name has no address; looks like a name with private addresses
├── OutcomeUnknown      an action was started and its outcome is unknown; it is not retried
├── Revoked             an operator revoked the capability during the run
├── SandboxUnavailable  the required confinement is not available on this machine
├── ToolFailed          a tool failed without any effect
├── ModelFailed         a model's provider failed, or returned an unusable answer
├── KnowledgeUnavailable  knowledge bases are unavailable now
├── CatalogueUnavailable  a catalogue cannot be fetched, or its content is not what its publisher signed
└── SettingsError       the settings are invalid
"""

from __future__ import annotations

from errno import errorcode
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, ClassVar

from bollard.confine.errors import ConfineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bollard.protocol import JsonObject


def caused_by(error: BaseException) -> Mapping[str, Any]:
    """The details of an error that another error caused. `problem` is its sentence.

    A translation finds the problem of the operating system and of an `ExplainedError` by `problem_type`, such as
    `os.ENOSPC`, and that of the host by the code and the details of `cause`. It quotes the sentence of any other error,
    which is not ours.
    """
    if isinstance(error, HostError):
        return {"problem": error.message, "cause": {"code": error.code, "details": error.details}}
    if isinstance(error, ExplainedError):
        return {"problem": str(error), **error.details}
    if isinstance(error, ConfineError):
        return {"problem": error.message, **error.details}
    if isinstance(error, OSError) and (details := getattr(error, "details", None)):  # of a program or a proxy
        return {"problem": str(error), **details}
    if isinstance(error, OSError) and error.strerror:
        name = errorcode.get(error.errno or 0, "unknown")
        return {"problem": error.strerror, "problem_type": f"os.{name}"}
    if isinstance(error, JSONDecodeError):
        return {"problem": str(error), "problem_type": "json.at", "line": error.lineno, "column": error.colno}
    if isinstance(error, UnicodeDecodeError):
        return {"problem": str(error), "problem_type": "json.encoding"}
    return {"problem": str(error) or type(error).__name__}


class ExplainedError(Exception):
    """An error inside the host. A translation of its sentence is found by the type of the problem, and filled with
    `values`; `inner` holds the details of a problem inside this one."""

    def __init__(
        self, message: str, problem_type: str = "", /, **values: str | int | float | Mapping[str, Any]
    ) -> None:
        super().__init__(message)
        self.details: Mapping[str, Any] = {"problem_type": problem_type, **values} if problem_type else {}


class HostError(Exception):
    """Root of the tree. `code` and `reason` are for programs, the sentence and the hint are for people.

    Each sentence has its own `reason`, unique below its code. Translations are found by code and reason, and filled
    with `details`: a value in a sentence is a detail too.
    """

    code: ClassVar[str] = "runtime_error"
    retryable: bool = False

    def __init__(
        self, message: str, *, reason: str, hint: str = "", **details: str | int | float | bool | JsonObject | None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: JsonObject = {"reason": reason, **details}

    @property
    def reason(self) -> str:
        return str(self.details["reason"])


class NotFound(HostError):
    """The resource does not exist, or the caller may not see it; both look the same."""

    code = "not_found"


class InvalidRequest(HostError):
    """`details.field` names the field."""

    code = "invalid_argument"


class PayloadTooLarge(HostError):
    code = "payload_too_large"


class Conflict(HostError):
    code = "conflict"


class Unauthenticated(HostError):
    """No token, or an invalid one; both look the same."""

    code = "unauthenticated"

    def __init__(
        self,
        message: str = "this needs a token",
        *,
        reason: str = "token_required",
        hint: str = "send `Authorization: Bearer …` with an API key, or the admin token that the first start printed",
    ) -> None:
        super().__init__(message, reason=reason, hint=hint)


class Forbidden(HostError):
    code = "unauthorized"


class BudgetExceeded(HostError):
    """A budget of the agent is used up. `details.retry_after_s` is set if waiting helps."""

    code = "budget_exceeded"


class Overloaded(HostError):
    code = "rate_limited"
    retryable = True


class RateExceeded(Overloaded):
    """An identity sends too many requests. `details.retry_after_s` says when to retry."""


class Draining(HostError):
    code = "draining"
    retryable = True


class StorageFull(HostError):
    code = "storage_full"
    retryable = True


class StorageUnavailable(HostError):
    """The store cannot be used now; nothing was written, unless `details.outcome` is `unknown`."""

    code = "storage_unavailable"
    retryable = True


class StoreTaken(StorageUnavailable):
    """Another process wrote to the store after this host lost it, so the host's memory of it is stale."""


class Fenced(HostError):
    """Another owner has the run, or it has ended. The writes of this owner were discarded."""

    code = "fenced"


class SchemaTooNew(HostError):
    code = "schema_too_new"


class LogBroken(HostError):
    """The newest part of the log was changed or lost. The host appends nothing until an operator accepts it.
    `details.name` is the value for the setting `broken_log`."""

    code = "log_broken"


class StoreMismatch(HostError):
    """A row of the database was not written by the host: it differs from the log, or its HMAC is wrong."""

    code = "store_mismatch"


class BadArchive(HostError):
    """A backup or an export is damaged, was changed, or is of another kind. Nothing of it was used."""

    code = "bad_archive"


class WorkerUnavailable(HostError):
    code = "worker_unavailable"
    retryable = True


class ConsentNeeded(HostError):
    """A plugin requests more permissions than were granted. `details.consent` is the consent to send."""

    code = "consent_needed"


class PluginUnusable(HostError):
    """No worker of this plugin could be started, so it was not installed. `details.problem` says why."""

    code = "plugin_unusable"


class ApprovalDenied(HostError):
    code = "approval_denied"


class ApprovalExpired(HostError):
    code = "approval_expired"


class ApprovalRequired(HostError):
    code = "approval_required"


class AuditUnavailable(HostError):
    code = "audit_unavailable"


class Cancelled(HostError):
    code = "cancelled"


class CapabilityDenied(HostError):
    code = "capability_denied"


class EgressDenied(HostError):
    code = "egress_denied"


class UnknownName(EgressDenied):
    """The name has no address. The error reads like that of a name with private addresses, so that callers cannot probe
    which names exist inside. The host itself may retry."""


class OutcomeUnknown(HostError):
    code = "outcome_unknown"


class Revoked(HostError):
    code = "revoked"


class SandboxUnavailable(HostError):
    code = "sandbox_unavailable"


class ToolFailed(HostError):
    code = "tool_failed"


class ModelFailed(HostError):
    """A model's provider failed, or returned an unusable answer. `details` has what a caller decides on: `reason`
    (`rate_limited`, `overloaded`, `timeout`, `unreachable`, `unauthorized`, `invalid_request`, `context_length`,
    `content_filter`, `broken_answer`, `not_supported`), `emitted` (whether the caller received part of the answer), and
    if known `status` and `retry_after_s`. A call is retryable if the reason is temporary and nothing was emitted.
    """

    code = "model_failed"

    def __init__(
        self, message: str, *, reason: str, hint: str = "", **details: str | int | float | bool | JsonObject | None
    ) -> None:
        super().__init__(message, reason=reason, hint=hint, **details)
        self.provider_words = ""
        """The provider's own message. Shown only to callers with the right to see it."""
        is_temporary = reason in ("rate_limited", "overloaded", "timeout", "unreachable")
        self.retryable = is_temporary and not details.get("emitted")


class KnowledgeUnavailable(HostError):
    code = "knowledge_unavailable"
    retryable = True


class CatalogueUnavailable(HostError):
    code = "catalogue_unavailable"


class SettingsError(HostError):
    code = "settings"

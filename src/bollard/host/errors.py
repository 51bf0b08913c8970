"""Everything the host refuses or cannot do, as one tree. Each error has a code, a sentence and a hint.

What only a request can be refused for is a branch in `http/errors.py`.

HostError
├── NotFound            absent, or not visible to the caller
├── InvalidRequest      a field is missing, unknown or out of range
├── PayloadTooLarge     a body is larger than its limit
├── Conflict            the thing is in a state that does not allow this
├── Unauthenticated     no token, or one that opens nothing
├── Forbidden           a gate is closed to this caller
├── BudgetExceeded      a budget of the agent is used up
├── Overloaded          a named limit is reached; try later
│   └── RateExceeded        an identity asks too often
├── Draining            this host takes nothing new any more; try another, or later
├── StorageFull         the store has no space left
├── StorageUnavailable  the store cannot be written or read now
│   └── StoreTaken          somebody else wrote to it since this host lost it
├── Fenced              this host does not own the run any more
├── SchemaTooNew        the database was made by a newer version
├── LogBroken           the end of the log is not what was written
├── StoreMismatch       a row of the database is not what the host wrote
├── BadArchive          a backup or an export that is not what was written
├── WorkerUnavailable   no worker can run this plugin now
├── ConsentNeeded       a plugin asks for more than somebody said yes to
├── PluginUnusable      no worker of this plugin could be started
├── ApprovalDenied      somebody said no to an action, or nobody may say yes
├── ApprovalExpired     nobody answered in time
├── ApprovalRequired    a person must say yes first
├── AuditUnavailable    an action could not be written down before it was done
├── Cancelled           a call was given up before it was begun
├── CapabilityDenied    a capability is there and this use of it is not allowed
├── EgressDenied        an address outside must not be reached
│   └── UnknownName         a name that has no address; told in the words of one whose addresses are inside
├── OutcomeUnknown      an action was begun and nobody can say what came of it
├── Revoked             an operator took it away during the run
├── SandboxUnavailable  the confinement that is demanded cannot be had here
├── ToolFailed          a tool could not do it, and had no effect
├── ModelFailed         a model's provider did not answer, or not with an answer
├── KnowledgeUnavailable  knowledge bases cannot be asked now
└── SettingsError       the configuration cannot work
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from bollard.protocol import JsonObject


class HostError(Exception):
    """Root of the tree. `code` and `reason` are for programs, the sentence and the hint are for people.

    Each sentence has its own `reason`, unique below its code. Translations are found by code and reason, and filled
    with `details`: a value in a sentence is a detail too.
    """

    code: ClassVar[str] = "runtime_error"
    retryable: bool = False

    def __init__(
        self, message: str, *, reason: str = "", hint: str = "", **details: str | int | float | bool | None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: JsonObject = {"reason": reason, **details} if reason else dict(details)


class NotFound(HostError):
    """Absent and invisible look the same."""

    code = "not_found"


class InvalidRequest(HostError):
    """`details.field` names the field."""

    code = "invalid_argument"


class PayloadTooLarge(HostError):
    """A body is larger than its limit; nothing of it was read further."""

    code = "payload_too_large"


class Conflict(HostError):
    """The thing is in a state that does not allow this."""

    code = "conflict"


class Unauthenticated(HostError):
    """No token, or one that opens nothing. The same for everyone."""

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
    """A gate is closed to this caller."""

    code = "unauthorized"


class BudgetExceeded(HostError):
    """A budget of the agent is used up; `details.retry_after_s` says when time alone helps."""

    code = "budget_exceeded"


class Overloaded(HostError):
    """A named limit is reached."""

    code = "rate_limited"
    retryable = True


class RateExceeded(Overloaded):
    """An identity asks too often; `details.retry_after_s` says when there is room again."""


class Draining(HostError):
    """The host is being stopped, or was told to take nothing new."""

    code = "draining"
    retryable = True


class StorageFull(HostError):
    """The store has no space left; reading and cancelling still work."""

    code = "storage_full"
    retryable = True


class StorageUnavailable(HostError):
    """The store cannot be used now; nothing was written."""

    code = "storage_unavailable"
    retryable = True


class StoreTaken(StorageUnavailable):
    """Somebody else wrote to the store since this host lost it: what the host remembers of it is not true any more."""


class Fenced(HostError):
    """Another owner has the run, or it has ended; what this owner wrote was discarded."""

    code = "fenced"


class SchemaTooNew(HostError):
    """The database was made by a newer version."""

    code = "schema_too_new"


class LogBroken(HostError):
    """The newest part of the log is not what was written: nothing is written behind it until somebody decides.
    `details.name` is what to call it then."""

    code = "log_broken"


class StoreMismatch(HostError):
    """A row of the database is not what the host wrote: it differs from the log, or its HMAC is wrong."""

    code = "store_mismatch"


class BadArchive(HostError):
    """A backup or an export that is broken, was changed, or is of another kind. Nothing of it was used."""

    code = "bad_archive"


class WorkerUnavailable(HostError):
    """No worker can run this plugin now."""

    code = "worker_unavailable"
    retryable = True


class ConsentNeeded(HostError):
    """A plugin asks for more than somebody said yes to; `details.consent` is the yes to send."""

    code = "consent_needed"


class PluginUnusable(HostError):
    """No worker of this plugin could be started, so it was not taken; `details.problem` says why."""

    code = "plugin_unusable"


class ApprovalDenied(HostError):
    """Somebody said no, or nobody may say yes."""

    code = "approval_denied"


class ApprovalExpired(HostError):
    """Nobody answered in time."""

    code = "approval_expired"


class ApprovalRequired(HostError):
    """A person must say yes first, and the policy does not let the run wait."""

    code = "approval_required"


class AuditUnavailable(HostError):
    """What must be written down before it is done could not be, in time. Nothing was done."""

    code = "audit_unavailable"


class Cancelled(HostError):
    """A call was given up before it was begun."""

    code = "cancelled"


class CapabilityDenied(HostError):
    """The capability is there and this use of it is not allowed."""

    code = "capability_denied"


class EgressDenied(HostError):
    """An address outside that must not be reached; nothing was sent to it."""

    code = "egress_denied"


class UnknownName(EgressDenied):
    """A name without an address. Told like a name whose addresses are inside, or a caller could find out which names
    are known inside; the host itself may try it again."""


class OutcomeUnknown(HostError):
    """An action was begun and nobody can say what came of it. It is not tried again."""

    code = "outcome_unknown"


class Revoked(HostError):
    """An operator took it away during the run."""

    code = "revoked"


class SandboxUnavailable(HostError):
    """The confinement that is demanded cannot be had on this machine."""

    code = "sandbox_unavailable"


class ToolFailed(HostError):
    """A tool could not do it, and surely had no effect."""

    code = "tool_failed"


class ModelFailed(HostError):
    """A model's provider did not answer, or not with an answer. `details` has what a caller decides on: `reason`
    (`rate_limited`, `overloaded`, `timeout`, `unreachable`, `unauthorized`, `invalid_request`, `context_length`,
    `content_filter`, `broken_answer`, `not_supported`), `emitted` (whether a part of the answer was handed on), and
    where it is known `status` and `retry_after_s`. It may be tried again where the reason passes and nothing was
    handed on.
    """

    code = "model_failed"

    def __init__(
        self, message: str, *, reason: str = "", hint: str = "", **details: str | int | float | bool | None
    ) -> None:
        super().__init__(message, reason=reason, hint=hint, **details)
        self.provider_words = ""
        """What the provider itself said. Only those who may see it are shown it."""
        passing = reason in ("rate_limited", "overloaded", "timeout", "unreachable")
        self.retryable = passing and not details.get("emitted")


class KnowledgeUnavailable(HostError):
    """Knowledge bases cannot be asked now."""

    code = "knowledge_unavailable"
    retryable = True


class SettingsError(HostError):
    """The configuration cannot work."""

    code = "settings"

"""Everything the host refuses or cannot do, as one tree. Each error has a code, a sentence and a hint.

HostError
├── NotFound            absent, or not visible to the caller
├── InvalidRequest      a field is missing, unknown or out of range
├── PayloadTooLarge     a body is larger than its limit
├── Conflict            the thing is in a state that does not allow this
├── Forbidden           a gate is closed to this caller
├── BudgetExceeded      a budget of the agent is used up
├── Overloaded          a named limit is reached; try later
├── StorageFull         the store has no space left
├── StorageUnavailable  the store cannot be written or read now
├── Fenced              this host does not own the run any more
├── SchemaTooNew        the database was made by a newer version
├── WorkerUnavailable   no worker can run this plugin now
└── SettingsError       the configuration cannot work
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = [
    "BudgetExceeded",
    "Conflict",
    "Fenced",
    "Forbidden",
    "HostError",
    "InvalidRequest",
    "NotFound",
    "Overloaded",
    "PayloadTooLarge",
    "SchemaTooNew",
    "SettingsError",
    "StorageFull",
    "StorageUnavailable",
    "WorkerUnavailable",
]


class HostError(Exception):
    """Root of the tree. `code` is for programs, the sentence and the hint are for people."""

    code: ClassVar[str] = "runtime_error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "", **details: str | int | float | bool | None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: JsonObject = dict(details)


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


class StorageFull(HostError):
    """The store has no space left; reading and cancelling still work."""

    code = "storage_full"
    retryable = True


class StorageUnavailable(HostError):
    """The store cannot be used now; nothing was written."""

    code = "storage_unavailable"
    retryable = True


class Fenced(HostError):
    """Another owner has the run, or it has ended; what this owner wrote was discarded."""

    code = "fenced"


class SchemaTooNew(HostError):
    """The database was made by a newer version."""

    code = "schema_too_new"


class WorkerUnavailable(HostError):
    """No worker can run this plugin now."""

    code = "worker_unavailable"
    retryable = True


class SettingsError(HostError):
    """The configuration cannot work."""

    code = "settings"

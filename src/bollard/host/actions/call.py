"""One call, and what came of it: frozen values, the second as its record has it."""

from typing import Any, Final, Literal, cast

import msgspec

from bollard.host.capabilities.sources import Returned
from bollard.host.errors import HostError
from bollard.host.store.action_rows import ToolCallRow
from bollard.protocol import JsonObject

__all__ = ["Call", "Outcome", "Status", "outcome_of", "refused_outcome", "returned_outcome"]

Status = Literal["completed", "failed", "rejected", "unknown"]
"""`failed`: it surely had no effect. `rejected`: it was not begun. `unknown`: it was, and nobody can say."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What a run asks for."""

    name: str
    """A short name of the run's graph, or an id."""
    arguments: JsonObject
    call_id: str | None = None
    """The caller's own; the host gives one where there is none."""
    explanation: str | None = None
    """The agent's own words."""
    target: str | None = None
    """Where it acts, where the arguments do not say it all."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of a call. A repeat of the call gets the same."""

    call_id: str
    capability: str
    status: Status
    content: tuple[dict[str, Any], ...] = ()
    structured: Any = None
    is_error: bool = False
    """The tool's own word: it did what it does, and that is an error."""
    artifact_refs: tuple[dict[str, Any], ...] = ()
    code: str | None = None
    message: str | None = None
    retryable: bool = False
    duration_ms: float = 0.0
    result_sha256: str | None = None
    size: int = 0
    flow: int = 0
    """What the run had touched when it was over, as bits."""

    def result(self) -> JsonObject:
        """As `ToolResult` of the protocol."""
        return {
            "call_id": self.call_id,
            "content": [*self.content],
            "structured": self.structured,
            "is_error": self.is_error,
            "artifact_refs": [*self.artifact_refs],
            "duration_ms": self.duration_ms,
        }

    def data(self) -> JsonObject:
        """As the data of the record that ends it, whose type says the status."""
        told = cast("JsonObject", msgspec.to_builtins(self))
        del told["status"]
        return told


_read: Final = msgspec.json.Decoder(dict[str, Any]).decode


def outcome_of(row: ToolCallRow) -> Outcome:
    """What was recorded of a call. One whose end nobody wrote is unknown."""
    if row.status == "started" or row.result is None:
        return Outcome(
            call_id=row.call_id,
            capability=row.capability,
            status="unknown",
            code="outcome_unknown",
            message="the call was begun and its outcome was not learned",
            flow=row.flow,
        )
    return msgspec.convert({**_read(row.result), "status": row.status}, Outcome)


def refused_outcome(call_id: str, capability: str, status: Status, error: HostError, **more: Any) -> Outcome:
    """An error as the outcome of a call."""
    return Outcome(
        call_id=call_id,
        capability=capability,
        status=status,
        code=error.code,
        message=error.message,
        retryable=error.retryable,
        **more,
    )


def returned_outcome(call_id: str, capability: str, returned: Returned, **more: Any) -> Outcome:
    return Outcome(
        call_id=call_id,
        capability=capability,
        status="completed",
        content=tuple(returned.content),
        structured=returned.structured,
        is_error=returned.is_error,
        artifact_refs=tuple(returned.artifact_refs),
        **more,
    )

"""One run in the in-memory host: its results, its calls and its end. The host applies the effects on stores."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from bollard.protocol import (
    RESULT_PAYLOADS,
    TERMINAL_TYPES,
    ActionRequested,
    AgentRunContext,
    AgentRunResult,
    PlatformRequest,
    RunFailed,
    Shape,
    TerminalStatus,
    first_problem,
    limits,
    status_of_failure,
)
from bollard.sdk.testing.grant import Grant
from bollard.sdk.testing.outcome import ApiRecord, Assembly, LogEntry, Rejected
from bollard.sdk.testing.steering import SteeringQueue
from bollard.sdk.testing.stores import measure_json


@dataclass(kw_only=True, slots=True)
class RunLedger:
    """The state of one run in the in-memory host."""

    context: AgentRunContext
    grant: Grant
    runner_id: str
    scope_keys: Mapping[str, str]
    steering: SteeringQueue
    results: list[AgentRunResult] = field(default_factory=list[AgentRunResult])
    rejected: list[Rejected] = field(default_factory=list[Rejected])
    calls: list[ApiRecord] = field(default_factory=list[ApiRecord])
    logs: list[LogEntry] = field(default_factory=list[LogEntry])
    actions: list[PlatformRequest] = field(default_factory=list[PlatformRequest])
    artifact_ids: list[str] = field(default_factory=list[str])
    assembly: Assembly = field(default_factory=Assembly)
    in_flight: int = 0
    terminal: AgentRunResult | None = None
    closed: bool = False

    def take(self, result: AgentRunResult) -> Shape | None:
        """Check and assemble one result. Returns its payload if it may have effects, otherwise `None`."""
        last = self.results[-1].sequence if self.results else 0
        if result.sequence <= last:
            return None  # a duplicate is dropped
        if self.terminal is not None or self.closed:
            self.reject(result, "result.rejected", "came after the end of the run")
            return None
        if result.sequence > last + 1:
            self.reject(result, "result.gap", f"results {last + 1} to {result.sequence - 1} are missing")
        self.results.append(result)
        self.steering.happened(result.type)
        if result.type in TERMINAL_TYPES:
            self.terminal = result
        if result.type not in RESULT_PAYLOADS:
            self.reject(result, "result.unknown", f"no result type {result.type}")
            return None
        size = measure_json(result.to_wire())
        if size > limits.RESULT_BYTES:
            self.reject(result, "result.rejected", f"{size} bytes exceed {limits.RESULT_BYTES}")
            return None
        try:
            payload = RESULT_PAYLOADS[result.type].from_wire(result.data)
        except ValidationError as error:
            self.reject(result, "result.rejected", ": ".join(first_problem(error)))
            return None
        self.assembly.take(payload)
        if isinstance(payload, ActionRequested):
            self.actions.append(PlatformRequest(action=payload.action, target=payload.target, payload=payload.payload))
        return payload

    def reject(self, result: AgentRunResult, record: str, reason: str) -> None:
        """Record a result without effect."""
        self.rejected.append(Rejected(result, record, reason))

    def verdict(self, cancel_reason: str | None) -> tuple[TerminalStatus, str | None, str | None]:
        """Return status, code and error. The reason of a cancelled run overrides the runner's own result."""
        said = _failure(self.terminal)
        if cancel_reason is not None:
            return status_of_failure(cancel_reason), cancel_reason, said[1] if said else None
        if self.terminal is None:
            return "failed", "runner.protocol", "the run ended without a terminal result"
        if said is not None:
            return status_of_failure(said[0]), said[0], said[1]
        if self.context.event.event_type == "message.received" and self.assembly.empty:
            return "failed", "runner.no_output", "the run on a message ended without any output"
        return "completed", None, None


def _failure(terminal: AgentRunResult | None) -> tuple[str, str] | None:
    if terminal is None or terminal.type != "run.failed":
        return None
    try:
        failed = RunFailed.from_wire(terminal.data)
    except ValidationError as error:  # an invalid run.failed is still a failure
        return "runner.error", f"an invalid run.failed: {': '.join(first_problem(error))}"
    return failed.code, failed.error

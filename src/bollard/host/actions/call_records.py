"""Records of calls, and the ledgers they are written to.

A call that has an effect or sends data out is on disk before it is made (class A). Other calls do not wait for it.
"""

import asyncio
import hashlib
from typing import Final

import msgspec
import structlog

from bollard.host.actions.call import Ledger, Outcome, granted_as, refused_outcome, returned_outcome
from bollard.host.capabilities.capability import Capability, Flow
from bollard.host.capabilities.sources import Adapter, CallOrder, CallResult
from bollard.host.clock import Clock
from bollard.host.errors import (
    AuditUnavailable,
    Cancelled,
    CapabilityDenied,
    HostError,
    NotFound,
    OutcomeUnknown,
    Revoked,
    StorageFull,
    ToolFailed,
    caused_by,
)
from bollard.host.grants.check import Denied, check
from bollard.host.limits import ACTION_ARGUMENTS_BYTES, AUDIT_S
from bollard.host.log.entries import CommitResult, Entry, ExpectationResult
from bollard.host.log.journal import Journal
from bollard.host.log.records import DeliverTo, NewRecord, encode_data
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.recorder import into
from bollard.host.secrets.redactor import Redactor
from bollard.host.telemetry.counts import RunCounts
from bollard.protocol import JsonObject

_log = structlog.get_logger("bollard.actions")
_encode: Final = msgspec.json.Encoder().encode


class CallEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Recorded facts of a call that are not part of the order."""

    name: str
    arguments_sha256: str
    approval_id: str | None = None
    explanation: str | None = None


def has_effect(capability: Capability) -> bool:
    """Whether a call must be on disk before it is made."""
    return capability.effects != "none" or capability.flow.sends_out or capability.risk not in ("low", "medium")


class Recorder:
    """Invokes adapters and records the start and the outcome of each call."""

    def __init__(self, redactor: Redactor, clock: Clock) -> None:
        self._redactor = redactor
        self._clock = clock

    async def carry_out(self, adapter: Adapter, order: CallOrder, entry: CallEntry, ledger: Ledger) -> Outcome:
        """Record the start, invoke the adapter and record the outcome. Raises only errors from before the call."""
        started = self.started(order, entry, ledger)
        if has_effect(order.capability):
            await self._on_disk(order, entry, ledger, started)
        else:
            ledger.note("action.started", started)
        begun = self._clock.monotonic()
        try:
            outcome = await self._invoked(adapter, order, ledger, begun)
        except asyncio.CancelledError:
            cancelled = OutcomeUnknown(
                "the call was cancelled before its outcome was known",
                reason="cancelled_during_call",
                hint="check what it did",
            )
            self._end(ledger, self._failed(order, cancelled, ledger, begun))
            raise
        self._end(ledger, outcome)
        return outcome

    async def _on_disk(self, order: CallOrder, entry: CallEntry, ledger: Ledger, started: JsonObject) -> None:
        try:
            await ledger.write("action.started", started)
        except AuditUnavailable as error:
            # The start may still reach the disk; then this rejection follows it.
            refused = refused_outcome(order.call_id, order.capability.id, "rejected", error)
            self.reject(ledger, refused, entry)
            raise
        except asyncio.CancelledError:
            cancelled = Cancelled(
                "the call was cancelled before it was begun",
                reason="cancelled_before_call",
                hint="call again with another id",
            )
            self.reject(ledger, refused_outcome(order.call_id, order.capability.id, "rejected", cancelled), entry)
            raise
        ledger.check(order.capability)  # it may have been revoked, or the run cancelled, during the write

    async def _invoked(self, adapter: Adapter, order: CallOrder, ledger: Ledger, begun: float) -> Outcome:
        try:
            return self._returned(order, await adapter.invoke(order), ledger, begun)
        except HostError as error:
            return self._failed(order, error, ledger, begun)
        except Exception as error:  # noqa: BLE001 -- the call was begun, so its end is recorded after any failure
            broken = OutcomeUnknown(
                f"the result of {order.capability.name} could not be processed: {type(error).__name__}",
                reason="result_not_processed",
                hint="see the host's log; check whether the call took effect before you repeat it",
                tool=order.capability.name,
                problem=type(error).__name__,
            )
            broken.__cause__ = error
            return self._failed(order, broken, ledger, begun)

    def _returned(self, order: CallOrder, returned: CallResult, ledger: Ledger, begun: float) -> Outcome:
        ledger.touch(returned.flow)
        body = _encode([returned.content, returned.structured, returned.is_error])
        return returned_outcome(
            order.call_id,
            order.capability.id,
            returned,
            duration_ms=self._ms(begun),
            result_sha256=hashlib.sha256(body).hexdigest(),
            size=len(body),
            flow=ledger.flow.bits,
        )

    def _failed(self, order: CallOrder, error: HostError, ledger: Ledger, begun: float) -> Outcome:
        """An error as an outcome: `failed` if the call certainly had no effect, otherwise `unknown`."""
        sure = isinstance(error, ToolFailed) or error.code in _BEFORE_ANY_EFFECT or order.capability.effects == "none"
        if error.__cause__ is not None and not isinstance(error.__cause__, HostError):
            _log.warning(
                "a capability failed",
                capability=order.capability.id,
                run=order.context.run_id,
                call=order.call_id,
                error=type(error.__cause__).__name__,
            )
        return refused_outcome(
            order.call_id,
            order.capability.id,
            "failed" if sure else "unknown",
            error
            if sure or isinstance(error, OutcomeUnknown)
            else OutcomeUnknown(error.message, reason=error.reason, hint=error.hint),
            duration_ms=self._ms(begun),
            flow=ledger.flow.bits,
        )

    def started(self, order: CallOrder, entry: CallEntry, ledger: Ledger) -> JsonObject:
        capability, workspace = order.capability, order.context.workspace
        data: JsonObject = {
            "call_id": order.call_id,
            "capability": capability.id,
            "name": entry.name,
            "kind": capability.kind,
            "source": capability.source,
            "version": capability.version,
            "definition_sha256": capability.definition_sha256,
            "arguments_sha256": entry.arguments_sha256,
            "risk": capability.risk,
            "effects": capability.effects,
            "flow": ledger.flow.bits,
        }
        size = len(_encode(order.arguments))
        if size <= ACTION_ARGUMENTS_BYTES:
            data["arguments"] = self._redactor.value(workspace, order.arguments)
        else:
            data["arguments_size"] = size
        if entry.approval_id is not None:
            data["approval_id"] = entry.approval_id
        if entry.explanation is not None:
            data["explanation"] = self._redactor.text(workspace, entry.explanation)
        return data

    def reject(self, ledger: Ledger, outcome: Outcome, entry: CallEntry) -> None:
        """Record a call that was not begun."""
        data = outcome.data()
        data |= {"name": entry.name, "arguments_sha256": entry.arguments_sha256}
        if entry.approval_id is not None:
            data["approval_id"] = entry.approval_id
        ledger.note("action.rejected", data)

    @staticmethod
    def _end(ledger: Ledger, outcome: Outcome) -> None:
        ledger.note(f"action.{outcome.status}", outcome.data())

    def _ms(self, begun: float) -> float:
        return round((self._clock.monotonic() - begun) * 1000, 1)


_BEFORE_ANY_EFFECT: Final = frozenset(
    {"egress_denied", "sandbox_unavailable", "capability_denied", "invalid_argument", "budget_exceeded"}
)
"""Codes that adapters raise only before any effect."""


# --- ledgers ---

_DETACHED_S: Final = 3600.0
"""Time limit of a detached call, unless its capability has a shorter one."""


def _too_late() -> AuditUnavailable:
    return AuditUnavailable(
        f"the call was not recorded within {AUDIT_S:g} seconds, so it was not made",
        reason="call_not_recorded_in_time",
        hint="check the store with `bollard doctor`, then call again with another id",
        seconds=AUDIT_S,
    )


def _no_room() -> StorageFull:
    return StorageFull(
        "the disk is full: the call was not recorded, so it was not made",
        reason="disk_full_for_call",
        hint="free space in the data directory",
    )


def _no_run(reason: str, hint: str) -> NotFound:
    return NotFound("there is no such run", reason=reason, hint=hint)


class LiveLedger:
    """The ledger of a run that this host executes."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run

    @property
    def live(self) -> bool:
        return True

    @property
    def fresh(self) -> bool:
        return self._run.epoch <= 1

    @property
    def flow(self) -> Flow:
        return Flow.of_bits(self._run.flow)

    def touch(self, flow: Flow) -> None:
        self._run.take_in(flow.bits)

    @property
    def answers(self) -> DeliverTo | None:
        return self._run.facts.deliver_to

    @property
    def left_s(self) -> float:
        return self._run.left_s

    def check(self, capability: Capability) -> None:
        if self._run.ending:
            raise _no_run("run_ended", "it has ended")
        operation, name = granted_as(self._run.session.graph, capability)
        allowed = check(self._run.grant, self._run.revoked, operation, name)
        if isinstance(allowed, Denied) and allowed.code == "revoked":
            raise Revoked(allowed.sentence, reason="capability_revoked", hint="start a new run")
        if isinstance(allowed, Denied):
            raise CapabilityDenied(
                allowed.sentence,
                reason="not_granted",
                hint="name it in the agent's policy",
                tool=capability.name,
                operation=operation,
            )
        if self._run.state.cancel is not None:  # a cancelled run may report results, but makes no calls
            raise Cancelled(
                "the run is being cancelled, so it makes no more calls", reason="run_cancelled", hint="start a new run"
            )

    async def write(self, kind: str, data: JsonObject) -> None:
        if self._run.environment.journal.full:
            raise _no_room()
        landed: asyncio.Future[ExpectationResult | None] = asyncio.get_running_loop().create_future()
        if not self._run.note(kind, data, into(landed)):
            raise _no_run("run_ended", "it has ended")
        try:
            async with asyncio.timeout(AUDIT_S):
                written = await landed
        except TimeoutError:
            raise _too_late() from None
        if written is None:
            raise _no_run("run_owned_elsewhere", "another host owns it")

    def note(self, kind: str, data: JsonObject) -> None:
        self._run.note(kind, data, pressing=False)


class DetachedLedger:
    """The ledger of one call whose run has ended."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        *,
        workspace: str,
        run_id: str,
        flow: Flow,
        counts: RunCounts | None = None,
    ) -> None:
        self._counts = counts or RunCounts()
        self._journal = journal
        self._clock = clock
        self._workspace = workspace
        self._run_id = run_id
        self._flow = flow
        self._last: asyncio.Future[CommitResult] | None = None

    @property
    def live(self) -> bool:
        return False

    @property
    def fresh(self) -> bool:
        return False

    @property
    def flow(self) -> Flow:
        return self._flow

    def touch(self, flow: Flow) -> None:
        self._flow |= flow

    @property
    def answers(self) -> DeliverTo | None:
        return None

    @property
    def left_s(self) -> float:
        return _DETACHED_S

    def check(self, capability: Capability) -> None:
        """A no-op: the approval already checked for revocation."""
        del capability

    async def write(self, kind: str, data: JsonObject) -> None:
        if self._journal.full:
            raise _no_room()
        try:
            async with asyncio.timeout(AUDIT_S):
                await self._journal.commit(self._entry(kind, data))
        except TimeoutError:
            raise _too_late() from None
        except HostError as error:
            raise AuditUnavailable(
                f"the call could not be recorded: {error.message}",
                reason="call_not_recorded",
                hint=error.hint,
                **caused_by(error),
            ) from error

    def note(self, kind: str, data: JsonObject) -> None:
        try:
            self._last = self._journal.submit(self._entry(kind, data), self._log_failure)
        except HostError:
            return  # `_log_failure` was called
        self._last.add_done_callback(lambda result: result.cancelled() or result.exception())

    def _log_failure(self, outcome: CommitResult | HostError) -> None:
        if isinstance(outcome, HostError):
            self._counts.records_lost += 1
            _log.warning("the end of a call could not be recorded", run=self._run_id, problem=outcome.message)

    async def written(self) -> None:
        """Wait until the end of the call is on disk or has failed, up to `AUDIT_S`."""
        if self._last is not None:
            await asyncio.wait([self._last], timeout=AUDIT_S)

    def _entry(self, kind: str, data: JsonObject) -> Entry:
        body = encode_data({**data, "run_id": self._run_id})
        record = NewRecord(workspace=self._workspace, type=kind, data=body, created_ms=self._clock.now_ms())
        return Entry(records=[record], size=len(body))

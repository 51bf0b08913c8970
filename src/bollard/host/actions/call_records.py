"""Writes a call down around its adapter: that it begins, before it does, and what came of it.

What has an effect, or takes something out, is on disk before it happens (class A). What only looks is not waited for.
"""

import asyncio
import hashlib
from typing import Final

import msgspec
import structlog

from bollard.host.actions.call import Outcome, asked_as, refused_outcome, returned_outcome
from bollard.host.actions.ports import Ledger, Redactor
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
)
from bollard.host.grants.check import Denied, check
from bollard.host.limits import ACTION_ARGUMENTS_BYTES, AUDIT_S
from bollard.host.log.entries import CommitResult, Entry, ExpectationResult
from bollard.host.log.journal import Journal
from bollard.host.log.records import DeliverTo, NewRecord, encode_data
from bollard.host.runs.batches import into
from bollard.host.runs.live_run import LiveRun
from bollard.protocol import JsonObject

_log = structlog.get_logger("bollard.actions")
_encode: Final = msgspec.json.Encoder().encode


class CallEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a call beside the order."""

    name: str
    arguments_sha256: str
    approval_id: str | None = None
    explanation: str | None = None


def has_effect(capability: Capability) -> bool:
    """Whether it must be on disk before it is done."""
    return capability.effects != "none" or capability.flow.sends_out or capability.risk not in ("low", "medium")


class Recorder:
    """One per host."""

    def __init__(self, redactor: Redactor, clock: Clock) -> None:
        self._redactor = redactor
        self._clock = clock

    async def carry_out(self, adapter: Adapter, order: CallOrder, entry: CallEntry, ledger: Ledger) -> Outcome:
        """The outcome, once its record is on its way. Raises only what came before the beginning."""
        started = self.started(order, entry, ledger)
        if has_effect(order.capability):
            await self._on_disk(order, entry, ledger, started)
        else:
            ledger.note("action.started", started)
        begun = self._clock.monotonic()
        try:
            outcome = await self._invoked(adapter, order, ledger, begun)
        except asyncio.CancelledError:
            # Nobody waits for it any more, and it was stopped half-way.
            gone = OutcomeUnknown("the call was given up before its outcome was known", hint="look what it did")
            self._end(ledger, self._failed(order, gone, ledger, begun))
            raise
        self._end(ledger, outcome)
        return outcome

    async def _on_disk(self, order: CallOrder, entry: CallEntry, ledger: Ledger, started: JsonObject) -> None:
        try:
            await ledger.write("action.started", started)
        except AuditUnavailable as error:
            # It may get onto the disk yet: then this stands behind it.
            refused = refused_outcome(order.call_id, order.capability.id, "rejected", error)
            self.reject(ledger, refused, entry)
            raise
        except asyncio.CancelledError:
            gone = Cancelled("the call was given up before it was begun", hint="call again, with another id")
            self.reject(ledger, refused_outcome(order.call_id, order.capability.id, "rejected", gone), entry)
            raise
        ledger.check(order.capability)  # what was taken away or stopped while it was written

    async def _invoked(self, adapter: Adapter, order: CallOrder, ledger: Ledger, begun: float) -> Outcome:
        try:
            return self._returned(order, await adapter.invoke(order), ledger, begun)
        except HostError as error:
            return self._failed(order, error, ledger, begun)
        except Exception as error:  # noqa: BLE001 -- it was begun: whatever broke around it, its end is written
            broken = OutcomeUnknown(
                f"what {order.capability.name} returned could not be kept: {type(error).__name__}",
                hint="the host's log has the details; look whether it happened before you do it again",
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
        """Only an adapter that says so surely had no effect. What has none cannot have left one."""
        sure = isinstance(error, ToolFailed) or error.code in _BEFORE_ANY_EFFECT or order.capability.effects == "none"
        if error.__cause__ is not None and not isinstance(error.__cause__, HostError):
            _log.warning(
                "a capability broke",
                capability=order.capability.id,
                run=order.context.run_id,
                call=order.call_id,
                error=type(error.__cause__).__name__,
            )
        return refused_outcome(
            order.call_id,
            order.capability.id,
            "failed" if sure else "unknown",
            error if sure or isinstance(error, OutcomeUnknown) else OutcomeUnknown(error.message, hint=error.hint),
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
        """A call that was not begun."""
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


_BEFORE_ANY_EFFECT: Final = frozenset({"egress_denied", "sandbox_unavailable", "capability_denied", "invalid_argument"})
"""What adapters raise before they do anything."""


# Where calls are written: into the run that makes them, or, for a call that was allowed after its run had ended, into
# its workspace, with the run named.


_ALONE_S: Final = 3600.0
"""Time that a call has whose run has ended, unless its capability allows less."""


def _too_late() -> AuditUnavailable:
    return AuditUnavailable(
        f"the call could not be written down within {AUDIT_S:g} seconds, so it was not made",
        hint="look at the store: `bollard doctor`; then call again, with another id",
    )


def _no_room() -> StorageFull:
    return StorageFull(
        "the disk is full: the call could not be written down, so it was not made", hint="free some space"
    )


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
            raise NotFound("there is no such run", hint="it has ended")
        asked = asked_as(self._run.session.graph, capability)
        allowed = check(self._run.grant, self._run.revoked, *asked)
        if isinstance(allowed, Denied) and allowed.code == "revoked":
            raise Revoked(allowed.sentence, hint="begin a new run")
        if isinstance(allowed, Denied):
            raise CapabilityDenied(allowed.sentence, hint="let the agent's policy name it")
        if self._run.state.cancel is not None:  # its last words are heard; nothing more is done
            raise Cancelled("the run is being stopped, so nothing more is begun", hint="begin a new run")

    async def write(self, kind: str, data: JsonObject) -> None:
        if self._run.disk_full:
            raise _no_room()
        landed: asyncio.Future[ExpectationResult | None] = asyncio.get_running_loop().create_future()
        if not self._run.note(kind, data, into(landed)):
            raise NotFound("there is no such run", hint="it has ended")
        try:
            async with asyncio.timeout(AUDIT_S):
                written = await landed
        except TimeoutError:
            raise _too_late() from None
        if written is None:
            raise NotFound("there is no such run", hint="another host has it")

    def note(self, kind: str, data: JsonObject) -> None:
        self._run.note(kind, data, pressing=False)


class DetachedLedger:
    """The ledger of one call whose run has ended."""

    def __init__(self, journal: Journal, clock: Clock, *, workspace: str, run_id: str, flow: Flow) -> None:
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
        return None  # nobody reads along any more

    @property
    def left_s(self) -> float:
        return _ALONE_S

    def check(self, capability: Capability) -> None:
        """Whoever allowed it looked at what was revoked."""
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
            raise AuditUnavailable(f"the call could not be written down: {error.message}", hint=error.hint) from error

    def note(self, kind: str, data: JsonObject) -> None:
        try:
            self._last = self._journal.submit(self._entry(kind, data), self._told)
        except HostError:
            return  # it was told already
        self._last.add_done_callback(lambda fate: fate.cancelled() or fate.exception())

    def _told(self, outcome: CommitResult | HostError) -> None:
        if isinstance(outcome, HostError):
            _log.warning("the end of a call could not be written", run=self._run_id, problem=outcome.message)

    async def written(self) -> None:
        """Wait until the end of the call is on disk, or cannot be; not for ever."""
        if self._last is not None:
            await asyncio.wait([self._last], timeout=AUDIT_S)

    def _entry(self, kind: str, data: JsonObject) -> Entry:
        body = encode_data({**data, "run_id": self._run_id})
        record = NewRecord(workspace=self._workspace, type=kind, data=body, created_ms=self._clock.now_ms())
        return Entry(records=[record], size=len(body))

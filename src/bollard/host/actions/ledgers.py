"""Where calls are written: into the run that makes them, or, for a call that was allowed after its run had ended, into
its workspace, with the run named."""

import asyncio
from typing import Final

import structlog

from bollard.host.actions.operations import asked_as
from bollard.host.capabilities.capability import Capability, Flow
from bollard.host.clock import Clock
from bollard.host.errors import AuditUnavailable, Cancelled, CapabilityDenied, HostError, NotFound, Revoked, StorageFull
from bollard.host.grants.check import Denied, check
from bollard.host.limits import AUDIT_S
from bollard.host.log.entries import Entry, Judgement, Outcome
from bollard.host.log.facts import DeliverTo
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.runs.live import LiveRun
from bollard.host.runs.turn import into
from bollard.protocol import JsonObject

__all__ = ["DetachedLedger", "LiveLedger"]

_log = structlog.get_logger("bollard.actions")
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
        landed: asyncio.Future[Judgement | None] = asyncio.get_running_loop().create_future()
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
        self._last: asyncio.Future[Outcome] | None = None

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

    def _told(self, outcome: Outcome | HostError) -> None:
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

"""One run that this host executes: what the host does with it and writes into it, and its end.

It decides nothing about runs (`machine`, whose effects `course` carries out), takes what the runner sends from its
`RunnerOutput`, and writes through its `recording` only.
Deltas are shown before their commit; everything else is on disk before anyone is told.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.grants.grant import Grant
from bollard.host.grants.revocation import NOTHING_REVOKED, Revocation
from bollard.host.grants.session import RunSession, open_session
from bollard.host.log.entries import StateExpectation
from bollard.host.log.facts import RunFacts
from bollard.host.log.journal import Journal
from bollard.host.runs.api_call import ApiCall
from bollard.host.runs.course import Course, CoursePorts
from bollard.host.runs.hub import Hub, StreamRecord
from bollard.host.runs.machine import EndCause, Ending, RunState
from bollard.host.runs.recording import Recording, RecordingPorts
from bollard.host.runs.scrubbing import RunScrubber
from bollard.host.runs.turn import Landed, Turn
from bollard.host.runs.turn_writer import Hearing, TurnWriter
from bollard.host.secrets.redactor import Redactor
from bollard.host.store.artifact_terms import ANY_TERMS, ArtifactTerms
from bollard.host.telemetry.counts import RunCounts
from bollard.host.telemetry.trace_context import RunTrace
from bollard.host.telemetry.tracer import OpenSpan
from bollard.protocol import JsonObject
from bollard.wire import HostRun

__all__ = ["ApiOfRuns", "LiveRun", "RunPorts"]


class Starter(Protocol):
    """Starts the run on a worker, or tells what it said."""

    def __call__(self, run: "LiveRun") -> None: ...


class ApiOfRuns(Protocol):
    """Answers what runners ask."""

    def called(self, run: "LiveRun", call: ApiCall) -> None: ...

    def crowded(self, run: "LiveRun", call: ApiCall, times: int) -> None:
        """So many calls were refused on the way here, this one first: too many are unanswered."""
        ...


class RunPorts(msgspec.Struct, frozen=True, kw_only=True):
    """What a live run is connected to."""

    journal: Journal
    hub: Hub
    clock: Clock
    api: ApiOfRuns
    released: Callable[["LiveRun"], None]
    stopping: Callable[["LiveRun"], None]
    """The run is being stopped: whatever it has under way should stop too."""
    misbehaved: Callable[["LiveRun"], None]
    """The runner ignored its cancellation: its worker should be drained."""
    overstays: Callable[["LiveRun"], None]
    """The runner goes on after its last result and was told to stop: its worker should be watched."""
    unwritable: Callable[["LiveRun", HostError], None]
    """The store does not take what came last, now or later: somebody ends the run as far as it is on disk, and says
    `replaced` then."""
    counts: RunCounts = msgspec.field(default_factory=RunCounts)
    redactor: Redactor = msgspec.field(default_factory=Redactor)
    terms: ArtifactTerms = ANY_TERMS


class LiveRun:
    """The executor's side of one run."""

    def __init__(
        self,
        facts: RunFacts,
        grant: Grant,
        *,
        epoch: int,
        seq: int,
        ports: RunPorts,
        state: RunState | None = None,
        session: RunSession | None = None,
    ) -> None:
        self.facts = facts
        self.grant = grant
        self.session = session or open_session(grant)
        """What it can call, and under which rules; nothing, where nobody says."""
        self.revoked: Revocation = NOTHING_REVOKED
        self.epoch = epoch
        self.request: JsonObject = {}
        self.calls_in_flight = 0
        """Calls that are being answered: a run that waits for the host is not idle."""
        self.calls = 0
        """Calls that were answered or are being answered."""
        self.calls_limited = 0
        """Calls in a row that came too fast."""
        self.closing: set[Callable[[], None]] = set()
        """Told right before its last records: whatever is under way says what became of it."""
        self.lending: set[Callable[[], None]] = set()
        """Told right before its last result: what is on its way to the runner was not read for it."""
        self.flow = facts.flow
        """What it has touched, as bits of `Flow`. They only grow."""
        self.trace: RunTrace | None = None
        """Where it stands in its trace, once the dispatcher has said so."""
        self.span: OpenSpan | None = None
        """Its own span, where spans are kept."""
        self.ports = ports
        self._loop = asyncio.get_running_loop()
        state = state or RunState(on_message=facts.on_message, status="dispatching", seq=seq, flow=facts.flow)
        self.course = Course(facts, state, self._course_ports())
        hearing = Hearing(
            landed=self._landed, fenced=self.fenced, refused=self._not_written, impossible=self._never_written
        )
        scrub = RunScrubber(ports.redactor.scrubber(facts.workspace))
        self.writer = TurnWriter(facts.run_id, epoch, ports.journal, ports.hub, hearing)
        telling = RecordingPorts(
            clock=ports.clock,
            terms=ports.terms,
            fact=self.course.step,
            flow=lambda: (self.flow, self.course.state.flow),
            spoke=self._spoke,
        )
        self.recording = Recording(facts, epoch, seq, self.writer, scrub, telling)
        self._touched: Callable[[LiveRun], None] | None = None
        self._store_refused = False
        self._active_at = self._silent_since = ports.clock.monotonic()
        self._awake = False
        self.done: asyncio.Future[None] = self._loop.create_future()

    def _course_ports(self) -> CoursePorts:
        ports = self.ports
        return CoursePorts(
            act=lambda action: ports.api.called(self, action),
            overdue=lambda: self.cancel("runner.timeout"),
            stopping=lambda: ports.stopping(self),
            misbehaved=lambda: ports.misbehaved(self),
            overstays=lambda: ports.overstays(self),
            closing=self._say_last,
            record=self.record,
            closed=self._close,
        )

    # --- what the dispatcher does ---

    @property
    def state(self) -> RunState:
        return self.course.state

    @property
    def ending(self) -> bool:
        """Whether its last record is written or being written."""
        return self.course.ending

    @property
    def outcome(self) -> Ending | None:
        """How it ends, once that is decided."""
        return self.course.outcome

    @property
    def place(self) -> tuple[int, int]:
        """Epoch and number of the newest record."""
        return self.epoch, self.recording.seq

    @property
    def left_s(self) -> float:
        """Active time that is left to it."""
        return self.course.timers.left_s

    @property
    def disk_full(self) -> bool:
        """Whether the journal found the disk full, so that nothing should begin."""
        return self.ports.journal.full

    def uncommitted(self) -> list[StreamRecord]:
        """What readers have seen of this run that is not on disk yet."""
        return self.writer.uncommitted()

    def begin(self, start: Starter, said: Starter | None = None) -> None:
        """The run is on disk and has a worker: write down that it began, and then what it `said` before it was."""
        if self.course.ending:
            return
        start(self)
        self.record("run.started", {}, pressing=False)
        if said is not None:
            said(self)
        self.flush()

    def attach(self, worker_run: HostRun, touched: Callable[["LiveRun"], None]) -> None:
        self.course.worker = worker_run
        self._touched = touched

    def cancel(self, reason: str, *, superseded: bool = False) -> None:
        """Stop the run for a reason that is a failure code. Later reasons change nothing."""
        if self.course.state.cancel is None and not self.course.ending:
            self.record("run.cancelled", {"reason": reason, "superseded": True} if superseded else {"reason": reason})
            self.flush()

    def fenced(self) -> None:
        """Another owner has the run: stop the worker, write nothing."""
        self.course.forsake()
        self.writer.forsake()
        self._release()

    def give_up(self, cause: EndCause, detail: str) -> None:
        """End the run now."""
        self.course.conclude(cause, detail)

    def check_idle(self, now: float) -> None:
        """Called about once a second."""
        if self.calls_in_flight or self.course.state.status != "running":
            self._active_at = now
        elif self.course.timers.idle(now - self._active_at):
            self.cancel("runner.timeout")

    def take_in(self, flow: int) -> None:
        """It is about to read what brings these bits along. The next record says so, before anything that follows."""
        self.flow |= flow

    # --- what is asked, and what the host writes into the run ---

    def note(
        self,
        kind: str,
        data: JsonObject,
        landed: Landed | None = None,
        *,
        expects: StateExpectation | None = None,
        blob: bytes | None = None,
        pressing: bool = True,
    ) -> bool:
        """A record of the host's own; `landed` is told once it is on disk. False when the run takes none any more.

        One that is not pressing may wait for company: nobody waits for it.
        """
        if self.course.ending:
            return False
        self.touch()
        self.recording.observe(kind, data, expects, pressing=pressing)
        turn = self.writer.turn
        if blob is not None:
            turn.blobs.append(blob)
            turn.size += len(blob)
        if landed is not None:
            turn.waiters.append((landed, None if expects is None else len(turn.expects) - 1))
        self.flush()
        return True

    def called(self, call: ApiCall) -> None:
        """Something is asked in the run's name."""
        self.touch()
        self.ports.api.called(self, call)

    def say_limited(self) -> None:
        """How many calls in a row came too fast. The first of them has a record of its own."""
        limited, self.calls_limited = self.calls_limited, 0
        if limited > 1:
            self.note("api.denied", {"outcome": "rate_limited", "count": limited}, pressing=False)

    def withholds(self, content: bytes) -> bool:
        """Whether a content has a secret of the workspace in it, and must not be kept."""
        return self.recording.withholds(content)

    @property
    def secret_bytes(self) -> int:
        """How much before a piece of a content may be the beginning of a secret that the piece completes."""
        return self.recording.secret_bytes

    async def written(self) -> bool:
        """Wait until everything that the run sent so far is on disk. False when it never will be."""
        return await self.writer.written(over=self.done.done())

    def revoke(self, revoked: Revocation, by: str, landed: Landed) -> bool:
        """Narrow the grant: at once for every new call, and durable before anyone is told."""
        if self.course.ending:
            return False
        self.revoked = revoked
        if not self.note("grant.revoked", {**revoked.data(), "by": by}, landed):
            return False
        if revoked.all:
            self.cancel("revoked")
        return True

    # --- turns ---

    def touch(self) -> Turn:
        """Something arrived: be told when everything that came with it has."""
        if not self._awake:
            self._awake = True
            self._active_at = self.ports.clock.monotonic()
            if self._touched is not None:
                self._touched(self)
        return self.writer.turn

    def record(self, kind: str, data: JsonObject, *, pressing: bool = True) -> None:
        if self.course.state.over:
            return
        self.touch()
        self.recording.observe(kind, data, pressing=pressing)

    def _spoke(self) -> None:
        if self._silent_since:  # its first words
            self.ports.counts.first_delta.observe(self.ports.clock.monotonic() - self._silent_since)
            self._silent_since = 0.0

    def flush(self) -> None:
        """What arrived together is complete: show what may be shown, and write it unless a commit is under way."""
        self._awake = False
        self.recording.close_deltas()
        if self.course.state.crowded and not self.course.closing:
            self.cancel("runner.protocol")
        self.writer.flush()

    def _landed(self, turn: Turn) -> None:
        """A turn is on disk: the worker may send as much more, or the run is over."""
        if turn.last:
            self._loop.call_soon(self._release)  # whoever reads the run gets its end first
        elif turn.source_seq and (worker := self.course.working) is not None:
            worker.credit(turn.source_seq)

    def _not_written(self) -> None:
        """The store refused: the run is stopped, and what it knows is written as soon as the store takes it again."""
        if not self._store_refused:
            self._store_refused = True
            self.cancel("host.lost")

    def _never_written(self, error: HostError) -> None:
        """What is in memory is worth nothing: the worker stops, and the run ends as one whose host is gone."""
        self.course.forsake()
        self.writer.forsake()
        self.ports.unwritable(self, error)

    def replaced(self, state: RunState) -> None:
        """It was ended by somebody else, and is over here; `state` is what became of it on disk."""
        self.course.state = state
        self._release()

    # --- its end ---

    def _say_last(self) -> None:
        """What was held back, and what became of whatever is under way."""
        self.recording.say_rest()
        self.recording.close_deltas()
        self.say_limited()
        for told in tuple(self.closing):
            told()

    def _close(self) -> None:
        self.writer.turn.last = True
        self.flush()

    def _release(self) -> None:
        self.course.release()
        self.writer.close()
        if not self.done.done():
            self.done.set_result(None)
            self.ports.hub.end(self.facts.run_id)
            self.ports.released(self)

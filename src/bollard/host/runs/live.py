"""One run that this host executes: hears what the worker sends, feeds the machine, carries out effects.

It decides nothing about runs (`machine`), validates payloads (`payloads`), and writes through its `recording` only.
Deltas are shown before their commit; everything else is on disk before anyone is told.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from bollard.host.clock import Clock
from bollard.host.grants.grant import Grant
from bollard.host.grants.revocation import NOTHING_REVOKED, Revocation
from bollard.host.grants.session import RunSession, open_session
from bollard.host.log.entries import StateExpectation
from bollard.host.log.facts import RunFacts
from bollard.host.log.journal import Journal
from bollard.host.runs.api_call import ApiCall
from bollard.host.runs.hub import Hub, StreamRecord
from bollard.host.runs.machine import (
    Ask,
    Effect,
    EndCause,
    Ending,
    Fact,
    Release,
    Rest,
    RunState,
    StartWorker,
    StopWorker,
    Watch,
    assembled,
    ending_of,
    settled,
    step,
)
from bollard.host.runs.payloads import judge_result, withheld_content
from bollard.host.runs.recording import Recording, RecordingPorts
from bollard.host.runs.requested_actions import RequestedActions
from bollard.host.runs.scrubbing import RunScrubber
from bollard.host.runs.timers import RunTimers
from bollard.host.runs.turn import Landed, Turn
from bollard.host.runs.turn_writer import Hearing, TurnWriter
from bollard.host.secrets.redactor import Redactor
from bollard.host.telemetry.counts import RunCounts
from bollard.host.telemetry.trace_context import RunTrace
from bollard.host.telemetry.tracer import OpenSpan
from bollard.protocol import JsonObject, limits
from bollard.wire import Delta, HostRun, RunEnd, Strike, WorkerResult

__all__ = ["ApiOfRuns", "LiveRun", "RunPorts"]

_ANSWER_WAIT_S: Final = 1.0
"""Time between a terminal result and the answer to `run/start`; then the run ends without it."""
_GRACE_MARGIN_S: Final = 0.5


class Starter(Protocol):
    """Starts the run on a worker, or tells what it said."""

    def __call__(self, run: "LiveRun") -> None: ...


class ApiOfRuns(Protocol):
    """Answers what runners ask."""

    def called(self, run: "LiveRun", call: ApiCall) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPorts:
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
    counts: RunCounts = field(default_factory=RunCounts)
    redactor: Redactor = field(default_factory=Redactor)


class LiveRun:
    """The executor's side of one run. Implements `RunSink` of the wire."""

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
        self.flow = facts.flow
        """What it has touched, as bits of `Flow`. They only grow."""
        self.trace: RunTrace | None = None
        """Where it stands in its trace, once the dispatcher has said so."""
        self.span: OpenSpan | None = None
        """Its own span, where spans are kept."""
        self.outcome: Ending | None = None
        """How it ends, once that is decided."""
        self._ports = ports
        self._loop = asyncio.get_running_loop()
        self._state = state or RunState(on_message=facts.on_message, status="dispatching", seq=seq, flow=facts.flow)
        hearing = Hearing(landed=self._landed, fenced=self.fenced, refused=self._not_written)
        scrub = RunScrubber(ports.redactor.scrubber(facts.workspace))
        self._writer = TurnWriter(facts.run_id, epoch, ports.journal, ports.hub, hearing)
        telling = RecordingPorts(
            clock=ports.clock, fact=self._step, flow=lambda: (self.flow, self._state.flow), spoke=self._spoke
        )
        self._recording = Recording(facts, epoch, seq, self._writer, scrub, telling)
        self._actions = RequestedActions(lambda action: ports.api.called(self, action), self._acted)
        self._touched: Callable[[LiveRun], None] | None = None
        self._worker_run: HostRun | None = None
        self._store_refused = False
        self._active_at = self._silent_since = ports.clock.monotonic()
        self._awake = False
        self._timers = RunTimers(facts.deadline_s, facts.idle_s, overdue=self._overdue)
        self._ending = self._held = False
        self.done: asyncio.Future[None] = self._loop.create_future()

    # --- what the dispatcher does ---

    @property
    def state(self) -> RunState:
        return self._state

    @property
    def ending(self) -> bool:
        """Whether its last record is written or being written."""
        return self._ending

    @property
    def place(self) -> tuple[int, int]:
        """Epoch and number of the newest record."""
        return self.epoch, self._recording.seq

    @property
    def left_s(self) -> float:
        """Active time that is left to it."""
        return self._timers.left_s

    @property
    def disk_full(self) -> bool:
        """Whether the journal found the disk full, so that nothing should begin."""
        return self._ports.journal.full

    def uncommitted(self) -> list[StreamRecord]:
        """What readers have seen of this run that is not on disk yet."""
        return self._writer.uncommitted()

    def begin(self, start: Starter, said: Starter | None = None) -> None:
        """The run is on disk and has a worker: write down that it began, and then what it `said` before it was."""
        if self._ending:
            return
        start(self)
        self._record("run.started", {}, pressing=False)
        if said is not None:
            said(self)
        self.flush()

    def attach(self, worker_run: HostRun, touched: Callable[["LiveRun"], None]) -> None:
        self._worker_run = worker_run
        self._touched = touched

    def cancel(self, reason: str) -> None:
        """Stop the run for a reason that is a failure code. Later reasons change nothing."""
        if self._state.cancel is None and not self._ending:
            self._record("run.cancelled", {"reason": reason})
            self.flush()

    def fenced(self) -> None:
        """Another owner has the run: stop the worker, write nothing."""
        if self._worker_run is not None and not self._worker_run.ended.done():
            self._worker_run.cancel("host.lost")
        self._ending, self.outcome = True, None
        self._writer.forsake()
        self._release()

    def give_up(self, cause: EndCause, detail: str) -> None:
        """End the run now."""
        self._conclude(cause, detail)

    def check_idle(self, now: float) -> None:
        """Called about once a second."""
        if self.calls_in_flight or self._state.status != "running":
            self._active_at = now
        elif self._timers.idle(now - self._active_at):
            self.cancel("runner.timeout")

    def take_in(self, flow: int) -> None:
        """It is about to read what brings these bits along. The next record says so, before anything that follows."""
        self.flow |= flow

    # --- what the host writes into the run ---

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
        if self._ending:
            return False
        self._touch()
        self._recording.observe(kind, data, expects, pressing=pressing)
        turn = self._writer.turn
        if blob is not None:
            turn.blobs.append(blob)
            turn.size += len(blob)
        if landed is not None:
            turn.waiters.append((landed, None if expects is None else len(turn.expects) - 1))
        self.flush()
        return True

    def withholds(self, content: bytes) -> bool:
        """Whether a content has a secret of the workspace in it, and must not be kept."""
        return self._recording.withholds(content)

    async def written(self) -> bool:
        """Wait until everything that the run sent so far is on disk. False when it never will be."""
        return await self._writer.written(over=self.done.done())

    def revoke(self, revoked: Revocation, by: str, landed: Landed) -> bool:
        """Narrow the grant: at once for every new call, and durable before anyone is told."""
        if self._ending:
            return False
        self.revoked = revoked
        if not self.note("grant.revoked", {**revoked.data(), "by": by}, landed):
            return False
        if revoked.all:
            self.cancel("revoked")
        return True

    # --- what the worker sends (RunSink) ---

    def delta(self, delta: Delta, size: int) -> None:
        if not self._ending:
            self._touch()
            self._recording.delta(delta, size)

    def result(self, result: WorkerResult) -> None:
        if self._ending:
            return
        result = self._recording.shown(result)
        judged = judge_result(result, self.grant, self.revoked)
        if judged.blob is not None and self.withholds(judged.blob):
            judged = withheld_content(result)
        turn = self._touch()
        if judged.delta is not None:
            self._recording.piece(judged)
        else:
            self._recording.add(judged, result.sequence, judged.expects)
            if judged.blob is not None:
                turn.blobs.append(judged.blob)
        turn.size += result.size_bytes
        turn.source_seq = result.sequence
        if judged.type == "action.requested":
            self._actions.begin(result.data)

    def gap(self, first: int, last: int) -> None:
        self._record("result.gap", {"first": first, "last": last})

    def refused(self, sequence: int, why: Literal["late", "too_large"]) -> None:
        reasons = {"late": "it came after the terminal result", "too_large": "it is larger than 1 MiB"}
        self._record("result.rejected", {"sequence": sequence, "reason": why, "problem": reasons[why]})
        turn = self._writer.turn
        turn.source_seq = max(sequence, turn.source_seq)  # it took part in the window: its credit returns

    def called(self, call: ApiCall) -> None:
        self._touch()
        self._ports.api.called(self, call)

    def struck(self, strike: Strike) -> None:
        self._record("result.rejected", {"reason": strike.fault, "problem": strike.detail, "strike": strike.count})
        if strike.ends == "run":
            self._conclude("broken", f"the worker broke the protocol {strike.count} times, last: {strike.detail}")

    def ended(self, end: RunEnd) -> None:
        if end.how == "answered" and self._state.cancel is not None and self._state.terminal is None:
            self._ports.misbehaved(self)  # its grace is over and the runner still ignores its cancellation
        self._conclude(end.how, end.reason or "")

    # --- turns ---

    def _touch(self) -> Turn:
        """Something arrived: be told when everything that came with it has."""
        if not self._awake:
            self._awake = True
            self._active_at = self._ports.clock.monotonic()
            if self._touched is not None:
                self._touched(self)
        return self._writer.turn

    def _record(self, kind: str, data: JsonObject, *, pressing: bool = True) -> None:
        if self._state.over:
            return
        self._touch()
        self._recording.observe(kind, data, pressing=pressing)

    def _spoke(self) -> None:
        if self._silent_since:  # its first words
            self._ports.counts.first_delta.observe(self._ports.clock.monotonic() - self._silent_since)
            self._silent_since = 0.0

    def flush(self) -> None:
        """What arrived together is complete: show what may be shown, and write it unless a commit is under way."""
        self._awake = False
        self._recording.close_deltas()
        self._writer.flush()

    def _landed(self, turn: Turn) -> None:
        """A turn is on disk: the worker may send as much more, or the run is over."""
        if turn.last:
            self._loop.call_soon(self._release)  # whoever reads the run gets its end first
        elif turn.source_seq and self._worker_run is not None and not self._worker_run.ended.done():
            self._worker_run.credit(turn.source_seq)

    def _not_written(self) -> None:
        """The store refused: the run is stopped, and what it knows is written as soon as the store takes it again."""
        if not self._store_refused:
            self._store_refused = True
            self.cancel("host.lost")

    # --- effects ---

    def _step(self, fact: Fact) -> None:
        self._state, effects = step(self._state, fact)
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Watch():
                self._timers.run()
            case Rest():
                self._timers.pause()
            case StopWorker(reason):
                self._stop_worker(reason)
            case Ask():
                self._timers.grace(_ANSWER_WAIT_S, lambda: self._conclude("answered", ""))
            case Release():
                self._timers.stop()
            case StartWorker():
                pass  # the dispatcher starts it, because only it knows a worker

    def _stop_worker(self, reason: str) -> None:
        self._ports.stopping(self)
        self._actions.give_up()
        if self._worker_run is None or self._worker_run.ended.done():
            self._conclude("answered", "")  # no worker has it: there is nobody to wait for
            return
        self._worker_run.cancel(reason)
        self._timers.grace(limits.CANCEL_GRACE_S + _GRACE_MARGIN_S, self._grace_over)

    def _grace_over(self) -> None:
        self._ports.misbehaved(self)
        self._conclude("grace", "")

    def _overdue(self) -> None:
        self.cancel("runner.timeout")

    def _conclude(self, cause: EndCause, detail: str) -> None:
        """Write the last records of the run, once; one that went well waits for the actions that it asked for."""
        if self._ending:
            return
        if self._actions and cause == "answered" and self._went_well:
            self._held = True
            return
        self._recording.say_rest()
        self._recording.close_deltas()
        for told in tuple(self.closing):
            told()
        self._ending = True
        for message in assembled(self._state):
            self._record("message.completed", message)
        self.outcome = ending = ending_of(self._state, cause, detail)
        for kind, data in settled(self._state, ending):
            self._record(kind, data)
        self._record("run.ended", ending.data())
        self._writer.turn.last = True
        self.flush()

    @property
    def _went_well(self) -> bool:
        return self._state.terminal == "run.completed" and self._state.cancel is None

    def _acted(self) -> None:
        """The last action that the runner asked for has ended; what came of it is on its way to the log."""
        if self._held:
            self._conclude("answered", "")

    def _release(self) -> None:
        self._actions.give_up()
        self._timers.stop()
        self._writer.close()
        if not self.done.done():
            self.done.set_result(None)
            self._ports.hub.end(self.facts.run_id)
            self._ports.released(self)

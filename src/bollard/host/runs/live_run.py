"""One run that this host executes: its state, its records and its end.

The pure machine decides (`machine`), and `LiveRun` carries out its effects. The runner's results arrive through
`RunnerOutput`. Readers see deltas before their commit; every other record is on disk before they see it.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Literal, Protocol

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.grants.grant import Grant
from bollard.host.grants.revocation import NOTHING_REVOKED, Revocation
from bollard.host.grants.session import RunSession, open_session
from bollard.host.limits import MIB, RUN_OUTPUT_MIB
from bollard.host.log.entries import StateExpectation
from bollard.host.log.journal import Journal
from bollard.host.log.records import RunFacts
from bollard.host.reason import NO_PROBLEM, Why
from bollard.host.runs.api_call import ApiCall, RequestedAction
from bollard.host.runs.hub import Hub, StreamRecord
from bollard.host.runs.machine import (
    AwaitStart,
    Effect,
    EndCause,
    Ending,
    Fact,
    PauseTimers,
    Release,
    RunState,
    StartTimers,
    StartWorker,
    StopWorker,
    ending_of,
    last_records,
    step,
)
from bollard.host.runs.recorder import Landed, PendingBatch, RunRecorder
from bollard.host.runs.scrubber import RunScrubber
from bollard.host.secrets.redactor import Redactor
from bollard.host.store.artifact_terms import ANY_TERMS, ArtifactTerms
from bollard.host.telemetry.counts import RunCounts
from bollard.host.telemetry.tracer import OpenSpan, RunTrace
from bollard.protocol import JsonObject, limits
from bollard.wire import HostRun

_ANSWER_WAIT_S: Final = 1.0
"""Time between a terminal result and the answer to `run/start`. Then the run ends and its code is stopped."""
_GRACE_MARGIN_S: Final = 0.5

Reassign = Callable[[Literal["certain", "likely"]], bool]
"""Gives the run to another worker. The argument says how sure it is that the worker never read the run. Returns False
if the run must end instead."""


Starter = Callable[["LiveRun"], None]
"""Starts the run on a worker, or replays what the worker has already sent."""


class ApiOfRuns(Protocol):
    """The run API, which answers the calls of runners."""

    def called(self, run: "LiveRun", call: ApiCall) -> None: ...

    def crowded(self, run: "LiveRun", call: ApiCall, times: int) -> None:
        """The worker connection refused `times` calls, this one first, because too many are unanswered."""
        ...


class RunOwner(Protocol):
    """The dispatcher, as its live runs see it."""

    def released(self, run: "LiveRun") -> None:
        """The run is over on this host."""
        ...

    def stopping(self, run: "LiveRun") -> None:
        """The run is being stopped. Its child runs stop too."""
        ...

    def misbehaved(self, run: "LiveRun") -> None:
        """The runner ignored its cancellation. Its worker is drained."""
        ...

    def overstays(self, run: "LiveRun") -> None:
        """The runner goes on after its terminal result and was told to stop. Its worker is watched."""
        ...

    def unwritable(self, run: "LiveRun", error: HostError) -> None:
        """The store refuses the records of the run for good. The owner ends the run on disk and calls `replaced`."""
        ...


class RunEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the host that every live run uses."""

    journal: Journal
    hub: Hub
    clock: Clock
    api: ApiOfRuns
    counts: RunCounts = msgspec.field(default_factory=RunCounts)
    redactor: Redactor = msgspec.field(default_factory=Redactor)
    terms: ArtifactTerms = ANY_TERMS
    run_output_mib: int = RUN_OUTPUT_MIB
    """MiB that a run may record where its agent allows no less."""


class LiveRun:
    """The one owner of the state of a run while the run executes."""

    __slots__ = (
        "_actions",
        "_active_at",
        "_awake",
        "_concluding",
        "_deadline",
        "_grace",
        "_left_s",
        "_loop",
        "_owner",
        "_repeats",
        "_running_since",
        "_silent_since",
        "_store_refused",
        "_touched",
        "_waits_for_actions",
        "calls",
        "calls_in_flight",
        "calls_limited",
        "closing",
        "done",
        "ending",
        "environment",
        "epoch",
        "facts",
        "flow",
        "grant",
        "lending",
        "outcome",
        "output_mib",
        "prompts",
        "reassign",
        "recorder",
        "repeatable",
        "request",
        "revoked",
        "session",
        "span",
        "state",
        "trace",
        "worker",
    )

    def __init__(
        self,
        facts: RunFacts,
        grant: Grant,
        *,
        epoch: int,
        seq: int,
        environment: RunEnvironment,
        owner: RunOwner,
        state: RunState | None = None,
        session: RunSession | None = None,
    ) -> None:
        self.facts = facts
        self.grant = grant
        self.session = session or open_session(grant)
        """The capabilities of the run and the rules for its calls. Without a session there are none."""
        self.revoked: Revocation = NOTHING_REVOKED
        self.epoch = epoch
        self.state = state or RunState(on_message=facts.on_message, status="dispatching", seq=seq, flow=facts.flow)
        self.ending = False
        """Whether the last record is written or being written."""
        self.outcome: Ending | None = None
        """How the run ends, once that is decided."""
        self.worker: HostRun | None = None
        """The run on its worker, once a worker has it."""
        self.repeatable = False
        """Whether the event may get another run if the host goes away. Set by the dispatcher."""
        self.prompts: Mapping[str, str] = {}
        """The configured prompts by field, in the order of the form. Set by the dispatcher."""
        self.request: JsonObject = {}
        self.calls_in_flight = 0
        """Calls being answered. A run that waits for the host is not idle."""
        self.calls = 0
        """Calls that were answered or are being answered."""
        self.calls_limited = 0
        """Consecutive calls that came too fast."""
        self.closing: set[Callable[[], None]] = set()
        """Called before the last records. Work under way records its outcome there."""
        self.lending: set[Callable[[], None]] = set()
        """Called before the terminal result is recorded. The run has not read the steering messages still in flight."""
        self.flow = facts.flow
        """What the run has touched, as bits of `Flow`. Bits are only added."""
        self.trace: RunTrace | None = None
        """The place of the run in its trace. Set by the dispatcher."""
        self.span: OpenSpan | None = None
        """The span of the run, where spans are kept."""
        self.reassign: Reassign | None = None
        """Gives the run to another worker, until the runner has sent something."""
        self.environment = environment
        self.output_mib = min(environment.run_output_mib, grant.limits.run_output_mib or environment.run_output_mib)
        """MiB that the run may record."""
        self.recorder = RunRecorder(
            self,
            seq,
            RunScrubber(environment.redactor.scrubber(facts.workspace)),
            journal=environment.journal,
            hub=environment.hub,
            clock=environment.clock,
            terms=environment.terms,
        )
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._left_s = facts.deadline_s
        """The active time that was left when the clock of the deadline last stopped."""
        self._running_since: float | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._actions: set[RequestedAction] = set()
        """Requested actions that have not ended. A completed run stays open until all of them have."""
        self._concluding = False
        self._waits_for_actions = False
        self._repeats = False
        self._touched: Callable[[LiveRun], None] | None = None
        self._store_refused = False
        self._active_at = self._silent_since = environment.clock.monotonic()
        self._awake = False
        self.done: asyncio.Future[None] = self._loop.create_future()

    # --- the dispatcher's side ---

    @property
    def working(self) -> HostRun | None:
        """The run on its worker, unless it has ended there."""
        return None if self.worker is None or self.worker.ended.done() else self.worker

    @property
    def place(self) -> tuple[int, int]:
        """Epoch and number of the newest record."""
        return self.epoch, self.recorder.seq

    @property
    def left_s(self) -> float:
        """The active time that is left. It stands still while the run waits for a person."""
        since = self._running_since
        return self._left_s if since is None else self._left_s - (self._loop.time() - since)

    def uncommitted(self) -> list[StreamRecord]:
        """The records that readers have seen and that are not on disk yet."""
        return self.recorder.uncommitted()

    def begin(self, start: Starter, replay: Starter | None = None) -> None:
        """Start the run on its worker, record `run.started`, then `replay` what the runner sent before the run was on
        disk. A run that begins again on another worker has its `run.started` already."""
        if self.ending:
            return
        start(self)
        if self.state.status == "dispatching":
            self.record("run.started", {}, pressing=False)
        else:
            self.touch()
        if replay is not None:
            replay(self)
        self.flush()

    def attach(self, worker_run: HostRun, touched: Callable[["LiveRun"], None]) -> None:
        self.worker = worker_run
        self._touched = touched

    def cancel(self, reason: str, *, superseded: bool = False) -> None:
        """Stop the run. `reason` is a failure code. Only the first reason counts."""
        if self.state.cancel is None and not self.ending:
            self.record("run.cancelled", {"reason": reason, "superseded": True} if superseded else {"reason": reason})
            self.flush()

    def lose(self) -> None:
        """End the run as after a crash: the host stops, and the grace of the run is over."""
        going = self.state.status in ("dispatching", "running") and self.state.terminal is None
        self._repeats = self.repeatable and going and self.state.cancel is None
        self.cancel("host.lost")

    def check_idle(self, now: float) -> None:
        """Cancel the run if its runner is silent for too long. Called about once a second."""
        if self.calls_in_flight or self.state.status != "running":
            self._active_at = now
        elif now - self._active_at > self.facts.idle_s:
            self.cancel("runner.timeout")

    @property
    def output_spent(self) -> bool:
        """Whether the run recorded more than it may. It is being stopped, and further results are dropped."""
        return self.recorder.bytes > self.output_mib * MIB

    def take_in(self, flow: int) -> None:
        """Add flow bits before the run reads what brings them along. The next record carries them."""
        self.flow |= flow

    # --- calls, and records of the host ---

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
        """Write a record of the host into the run. `landed` is called once the record is on disk. Returns False if the
        run takes no more records. A record that is not `pressing` may wait to share a commit."""
        if self.ending:
            if not pressing:
                self.environment.counts.records_lost += 1
            return False
        self.touch()
        self.recorder.observe(kind, data, expects, pressing=pressing)
        batch = self.recorder.batch
        if blob is not None:
            self.recorder.attach(blob)
            batch.size += len(blob)
        if landed is not None:
            batch.waiters.append((landed, None if expects is None else len(batch.expects) - 1))
        self.flush()
        return True

    def called(self, call: ApiCall) -> None:
        """Pass a call made in the name of the run to the run API."""
        self.touch()
        self.environment.api.called(self, call)

    def request_action(self, params: JsonObject) -> None:
        """Pass an action that the runner requested in a result to the run API."""
        action = RequestedAction(params, self._action_ended)
        self._actions.add(action)
        self.environment.api.called(self, action)

    def _action_ended(self, action: RequestedAction) -> None:
        if action in self._actions:
            self._actions.discard(action)
            if not self._actions and self._waits_for_actions:
                self.give_up("answered")

    def _give_up_actions(self) -> None:
        for action in tuple(self._actions):
            action.give_up()

    def say_limited(self) -> None:
        """Record how many consecutive calls came too fast. The first of them has its own record."""
        limited, self.calls_limited = self.calls_limited, 0
        if limited > 1:
            self.note("api.denied", {"outcome": "rate_limited", "count": limited}, pressing=False)

    async def written(self) -> bool:
        """Wait until everything that the run sent so far is on disk. Returns False if it never will be."""
        return await self.recorder.written(over=self.done.done())

    def revoke(self, revoked: Revocation, by: str, landed: Landed) -> bool:
        """Narrow the grant. New calls see it at once; it is on disk before `landed` is called."""
        if self.ending:
            return False
        self.revoked = revoked
        if not self.note("grant.revoked", {**revoked.data(), "by": by}, landed):
            return False
        if revoked.all:
            self.cancel("revoked")
        return True

    # --- batches ---

    def touch(self) -> PendingBatch:
        """Note that something arrived. The worker connection calls `flush` when everything of this turn has arrived."""
        if not self._awake:
            self._awake = True
            self._active_at = self.environment.clock.monotonic()
            if self._touched is not None:
                self._touched(self)
        return self.recorder.batch

    def record(self, kind: str, data: JsonObject, *, pressing: bool = True) -> None:
        if self.state.over:
            return
        self.touch()
        self.recorder.observe(kind, data, pressing=pressing)

    def spoke(self) -> None:
        """Called before text of the runner is shown."""
        if self._silent_since:  # the first text
            self.environment.counts.first_delta.observe(self.environment.clock.monotonic() - self._silent_since)
            self._silent_since = 0.0
            self.reassign = None

    def flush(self) -> None:
        """Show and write what arrived, unless a commit is under way."""
        self._awake = False
        self.recorder.close_deltas()
        if self.state.crowded and not self._concluding:
            self.cancel("runner.protocol")
        elif self.output_spent and not self._concluding:
            self.cancel("runner.output_too_large")
        self.recorder.flush()

    def landed(self, batch: PendingBatch) -> None:
        """A batch is on disk: return credit to the worker, or release the run after its last batch."""
        if batch.last:
            self._loop.call_soon(self._release)  # readers receive the end of the run first
        elif batch.source_seq and (worker := self.working) is not None:
            worker.credit(batch.source_seq)

    def refused(self) -> None:
        """Stop the run. Its records are written as soon as the store takes them again."""
        if not self._store_refused:
            self._store_refused = True
            self.cancel("host.lost")

    def rejected(self, error: HostError) -> None:
        """Stop the worker. What is in memory is lost, and the owner ends the run on disk."""
        self._forsake()
        self._owner.unwritable(self, error)

    def fenced(self) -> None:
        """Stop the worker and write nothing: another owner has the run."""
        self._forsake()
        self._release()

    def replaced(self, state: RunState) -> None:
        """Release the run after its owner ended it on disk with this state."""
        self.state = state
        self._release()

    # --- effects of the machine ---

    def step(self, *facts: Fact) -> None:
        """Feed records to the machine and carry out the effects."""
        for fact in facts:
            self.state, effects = step(self.state, fact)
            for effect in effects:
                self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case StartTimers():
                if self._running_since is None:
                    self._running_since = self._loop.time()
                    self._deadline = self._loop.call_later(max(0.0, self._left_s), self.cancel, "runner.timeout")
            case PauseTimers():
                self._left_s, self._running_since = self.left_s, None
                if self._deadline is not None:
                    self._deadline.cancel()
            case StopWorker(reason):
                self._stop_worker(reason)
            case AwaitStart():
                self._start_grace(_ANSWER_WAIT_S, self._answer_overdue)
            case Release():
                self._stop_timers()
            case StartWorker():
                pass  # the dispatcher starts the worker

    def _start_grace(self, seconds: float, over: Callable[[], None]) -> None:
        """Call `over` when the grace has passed. A new grace replaces the one before."""
        if self._grace is not None:
            self._grace.cancel()
        self._grace = self._loop.call_later(seconds, over)

    def _stop_timers(self) -> None:
        for timer in (self._deadline, self._grace):
            if timer is not None:
                timer.cancel()

    def _stop_worker(self, reason: str) -> None:
        self._owner.stopping(self)
        self._give_up_actions()
        worker = self.working
        if worker is None:
            self.give_up("answered")  # no worker has the run, so no answer comes
            return
        worker.cancel(reason)
        self._start_grace(limits.CANCEL_GRACE_S + _GRACE_MARGIN_S, self._grace_over)

    def _answer_overdue(self) -> None:
        """End the run after its terminal result, and stop the code that goes on."""
        if (worker := self.working) is not None:
            worker.cancel("runner.timeout")
            self._owner.overstays(self)
        self.give_up("answered")

    def _grace_over(self) -> None:
        self.misbehave()
        self.give_up("grace")

    def misbehave(self) -> None:
        """Drain the worker: the runner ignored its cancellation."""
        self._owner.misbehaved(self)

    # --- the end ---

    def give_up(self, cause: EndCause, detail: Why = NO_PROBLEM) -> None:
        """Write the last records, once. A run that completed waits for the actions that it requested."""
        if self.ending:
            return
        completed = self.state.terminal == "run.completed" and self.state.cancel is None
        if self._actions and cause == "answered" and completed:
            self._waits_for_actions = True
            return
        self._concluding = True
        self.recorder.close_texts()
        self.recorder.close_deltas()
        if self.calls_limited:
            self.say_limited()
        for close in tuple(self.closing):
            close()
        self.ending = True
        self.outcome = ending = ending_of(self.state, cause, detail)
        redispatch = self._repeats and ending.code == "host.lost"
        self.recorder.add_last(last_records(self.state, ending, redispatch=redispatch))

    def _forsake(self) -> None:
        """Stop the worker and drop unwritten records."""
        if (worker := self.working) is not None:
            worker.cancel("host.lost")
        self.ending, self.outcome = True, None
        self.environment.counts.records_lost += self.recorder.forsake()

    def _release(self) -> None:
        self.reassign = None
        self._give_up_actions()
        self._stop_timers()
        self.recorder.close()
        if not self.done.done():
            self.done.set_result(None)
            self.environment.hub.end(self.facts.run_id)
            self._owner.released(self)
            self.worker = None
            if self.state.over:  # nothing is recorded any more
                self.recorder.release()

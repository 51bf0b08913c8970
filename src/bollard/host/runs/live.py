"""One run that this host executes: turns what the worker sends into records, feeds the machine, carries out effects.

It decides nothing about runs (`machine`), validates payloads (`payloads`), and writes through the journal only.
Deltas are shown before their commit; everything else is on disk before anyone is told.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import msgspec

from bollard.host.clock import Clock
from bollard.host.grants.grant import Grant
from bollard.host.grants.revocation import NOTHING_REVOKED, Revocation
from bollard.host.log.entries import StateExpectation
from bollard.host.log.facts import RunFacts
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.runs.hub import Hub, StreamRecord
from bollard.host.runs.machine import (
    Ask,
    Effect,
    EndCause,
    Fact,
    Release,
    RunState,
    StartWorker,
    StopWorker,
    Watch,
    assembled,
    ending_of,
    settled,
    step,
)
from bollard.host.runs.payloads import Judged, judge_result
from bollard.host.runs.timers import RunTimers
from bollard.host.runs.turn import Landed, Turn, joined
from bollard.host.runs.turn_writer import Hearing, TurnWriter
from bollard.protocol import JsonObject, limits
from bollard.wire import Delta, HostRun, RunCall, RunEnd, Strike, WorkerResult

__all__ = ["ApiOfRuns", "LiveRun", "RunPorts"]

_encode: Final = msgspec.json.Encoder().encode
_ANSWER_WAIT_S: Final = 1.0
"""Time between a terminal result and the answer to `run/start`; then the run ends without it."""
_GRACE_MARGIN_S: Final = 0.5


class Starter(Protocol):
    """Starts the run on a worker."""

    def __call__(self, run: "LiveRun") -> None: ...


class ApiOfRuns(Protocol):
    """Answers what runners ask."""

    def called(self, run: "LiveRun", call: RunCall) -> None: ...


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


class LiveRun:
    """The executor's side of one run. Implements `RunSink` of the wire."""

    def __init__(
        self, facts: RunFacts, grant: Grant, *, epoch: int, seq: int, ports: RunPorts, state: RunState | None = None
    ) -> None:
        self.facts = facts
        self.grant = grant
        self.revoked: Revocation = NOTHING_REVOKED
        self.epoch = epoch
        self.request: JsonObject = {}
        self.calls_in_flight = 0
        """Calls that are being answered: a run that waits for the host is not idle."""
        self.calls = 0
        """Calls that were answered or are being answered."""
        self.calls_limited = 0
        """Calls in a row that came too fast."""
        self._ports = ports
        self._loop = asyncio.get_running_loop()
        self._state = state or RunState(on_message=facts.on_message, status="dispatching", seq=seq)
        self._seq = seq
        hearing = Hearing(landed=self._landed, fenced=self.fenced, refused=self._not_written)
        self._writer = TurnWriter(facts.run_id, epoch, ports.journal, ports.hub, hearing)
        self._touched: Callable[[LiveRun], None] | None = None
        self._worker_run: HostRun | None = None
        self._store_refused = False
        self._active_at = ports.clock.monotonic()
        self._awake = False
        self._timers = RunTimers(facts.deadline_s, facts.idle_s, overdue=self._overdue)
        self._ending = False
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
        return self.epoch, self._seq

    @property
    def left_s(self) -> float:
        """Active time that is left to it."""
        return self._timers.left_s

    def uncommitted(self) -> list[StreamRecord]:
        """What readers have seen of this run that is not on disk yet."""
        return self._writer.uncommitted()

    def begin(self, start: Starter) -> None:
        """The run is on disk and has a worker: send `run/start` and write down that it began."""
        if self._ending:
            return
        start(self)
        self._record("run.started", {}, pressing=False)
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
        self._ending = True
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
        self._add(Judged(kind, encode_data(data), fact=data, observed=True), None, expects, pressing=pressing)
        turn = self._writer.turn
        if blob is not None:
            turn.blobs.append(blob)
            turn.size += len(blob)
        if landed is not None:
            turn.waiters.append((landed, None if expects is None else len(turn.expects) - 1))
        self.flush()
        return True

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
        if self._ending:
            return
        turn = self._touch()
        self._seq += 1
        message_id = delta.data.message_id
        turn.deltas.append((self._seq, _encode(delta.data)))
        turn.texts.append((message_id if isinstance(message_id, str) else "", delta.data.chunk.content))
        turn.size += size
        turn.source_seq = delta.sequence

    def result(self, result: WorkerResult) -> None:
        if self._ending:
            return
        judged = judge_result(result, self.grant, self.revoked, now_ms=self._ports.clock.now_ms())
        turn = self._touch()
        if judged.delta is not None:
            self._seq += 1
            turn.deltas.append((self._seq, judged.data))
            turn.texts.append(judged.delta)
        else:
            self._add(judged, result.sequence, judged.expects)
            if judged.blob is not None:
                turn.blobs.append(judged.blob)
        turn.size += result.size_bytes
        turn.source_seq = result.sequence

    def gap(self, first: int, last: int) -> None:
        self._record("result.gap", {"first": first, "last": last})

    def refused(self, sequence: int, why: Literal["late", "too_large"]) -> None:
        reasons = {"late": "it came after the terminal result", "too_large": "it is larger than 1 MiB"}
        self._record("result.rejected", {"sequence": sequence, "reason": why, "problem": reasons[why]})
        turn = self._writer.turn
        turn.source_seq = max(sequence, turn.source_seq)  # it took part in the window: its credit returns

    def called(self, call: RunCall) -> None:
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
        self._add(Judged(kind, encode_data(data), fact=data, observed=True), None, pressing=pressing)

    def _add(
        self,
        judged: Judged,
        source_seq: int | None,
        expects: StateExpectation | None = None,
        *,
        pressing: bool = True,
    ) -> None:
        """A record that is not a delta, behind everything before it."""
        self._close_deltas()
        self._seq += 1
        turn, created_ms = self._writer.turn, self._ports.clock.now_ms()
        turn.pressing = turn.pressing or pressing
        if expects is not None:
            turn.expects.append(msgspec.structs.replace(expects, record=len(turn.records), now_ms=created_ms))
        turn.add(
            NewRecord(
                workspace=self.facts.workspace,
                type=judged.type,
                data=judged.data,
                created_ms=created_ms,
                observed=judged.observed,
                run_id=self.facts.run_id,
                seq=self._seq,
                epoch=self.epoch,
                source_seq=source_seq,
            )
        )
        self._step(Fact(judged.type, judged.fact, self._seq))

    def _close_deltas(self) -> None:
        """Deltas that came together become one row and one step."""
        turn = self._writer.turn
        if not turn.deltas:
            return
        texts = turn.close_deltas(self.facts.run_id, self.epoch, self._ports.clock.now_ms())
        self._step(Fact("message.delta", {}, self._seq, joined(texts)))

    def flush(self) -> None:
        """What arrived together is complete: show what may be shown, and write it unless a commit is under way."""
        self._awake = False
        self._close_deltas()
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
        """Write the last records of the run, once."""
        if self._ending:
            return
        self._close_deltas()
        self._ending = True
        for message in assembled(self._state):
            self._record("message.completed", message)
        ending = ending_of(self._state, cause, detail)
        for kind, data in settled(self._state, ending):
            self._record(kind, data)
        self._record("run.ended", ending.data())
        self._writer.turn.last = True
        self.flush()

    def _release(self) -> None:
        self._timers.stop()
        self._writer.close()
        if not self.done.done():
            self.done.set_result(None)
            self._ports.hub.end(self.facts.run_id)
            self._ports.released(self)

"""One run that this host executes: turns what the worker sends into records, feeds the machine, carries out effects.

It decides nothing about runs (`machine`), validates payloads (`payloads`), and writes through the journal only.
Deltas are shown before their commit; everything else is on disk before anyone is told.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.log.entries import Committed, Entry, Outcome
from bollard.host.log.facts import RunFacts
from bollard.host.log.journal import Journal
from bollard.host.log.kill_points import kill_point
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
    step,
)
from bollard.host.runs.payloads import Judged, judge_result
from bollard.host.runs.stream_records import delta_records, stream_record
from bollard.host.store.delta_spans import pack
from bollard.host.store.rows import DeltaRow
from bollard.protocol import AgentAPIError, HostInfo, JsonObject, limits
from bollard.wire import Delta, HostRun, RunCall, RunEnd, Strike, WorkerResult

__all__ = ["LiveRun", "RunPorts"]

_encode: Final = msgspec.json.Encoder().encode
_ANSWER_WAIT_S: Final = 1.0
"""Time between a terminal result and the answer to `run/start`; then the run ends without it."""
_GRACE_MARGIN_S: Final = 0.5
_STARTED_WAIT_S: Final = 0.02
_URGENT_RECORDS: Final = limits.WINDOW_RESULTS // 4
"""Deltas in one entry above which the worker will soon wait for its credit, so that the commit must not linger."""
_LIVE_TYPES: Final = frozenset({"message.delta", "run.started", "tool.call.started", "tool.call.completed"})
"""What readers may see before it is on disk: it has no effect and ends nothing."""
_RETRY_S: Final = 1.0
"""Time between two tries to write the end of a run that the store refused."""


class Starter(Protocol):
    """Starts the run on a worker."""

    def __call__(self, run: "LiveRun") -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPorts:
    """What a live run is connected to."""

    journal: Journal
    hub: Hub
    clock: Clock
    host_version: str
    released: Callable[["LiveRun"], None]
    misbehaved: Callable[["LiveRun"], None]
    """The runner ignored its cancellation: its worker should be drained."""


@dataclass(slots=True)
class _Turn:
    """What arrived since the last entry was given to the journal, in order."""

    records: list[NewRecord] = field(default_factory=list[NewRecord])
    rows: list[DeltaRow] = field(default_factory=list[DeltaRow])
    deltas: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    texts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    blobs: list[bytes] = field(default_factory=list[bytes])
    stream: list[StreamRecord] = field(default_factory=list[StreamRecord])
    shown: int = 0
    """How many of `stream` the readers have seen."""
    size: int = 0
    source_seq: int = 0
    last: bool = False
    """Whether it holds the end of the run."""

    @property
    def empty(self) -> bool:
        return not self.records and not self.rows and not self.deltas


class LiveRun:
    """The executor's side of one run. Implements `RunSink` of the wire."""

    def __init__(self, facts: RunFacts, *, epoch: int, seq: int, permissions: frozenset[str], ports: RunPorts) -> None:
        self.facts = facts
        self.epoch = epoch
        self.request: JsonObject = {}
        self._permissions = permissions
        self._ports = ports
        self._loop = asyncio.get_running_loop()
        self._state = RunState(on_message=facts.on_message, status="dispatching", seq=seq)
        self._seq = seq
        self._turn = _Turn()
        self._touched: Callable[[LiveRun], None] | None = None
        self._worker_run: HostRun | None = None
        self._in_flight: _Turn | None = None
        self._refused: HostError | None = None
        self._delta_rows = 0
        self._active_at = ports.clock.monotonic()
        self._awake = False
        self._deadline: asyncio.TimerHandle | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._ending = False
        self.done: asyncio.Future[None] = self._loop.create_future()

    # --- what the dispatcher does ---

    @property
    def state(self) -> RunState:
        return self._state

    def uncommitted(self) -> list[StreamRecord]:
        """What readers have seen of this run that is not on disk yet."""
        shown: list[StreamRecord] = []
        for turn in (self._in_flight, self._turn):
            if turn is not None:
                shown.extend(turn.stream[: turn.shown])
        return shown

    def begin(self, start: Starter) -> None:
        """The run is on disk and has a worker: send `run/start` and write down that it began."""
        if self._ending:
            return
        start(self)
        self._record("run.started", {})
        # What the worker answers at once shares this record's commit; a slow one does not delay it for long.
        self._loop.call_later(_STARTED_WAIT_S, self.flush)

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
        self._release()

    def give_up(self, cause: EndCause, detail: str) -> None:
        """End the run now."""
        self._conclude(cause, detail)

    def check_idle(self, now: float) -> None:
        """Called about once a second."""
        if self._state.status == "running" and now - self._active_at > self.facts.idle_s:
            self.cancel("runner.timeout")

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
        judged = judge_result(result, self.facts, self._permissions)
        turn = self._touch()
        if judged.delta is not None:
            self._seq += 1
            turn.deltas.append((self._seq, judged.data))
            turn.texts.append(judged.delta)
        else:
            self._add(judged, result.sequence)
            if judged.blob is not None:
                turn.blobs.append(judged.blob)
        turn.size += result.size_bytes
        turn.source_seq = result.sequence

    def gap(self, first: int, last: int) -> None:
        self._record("result.gap", {"first": first, "last": last})

    def refused(self, sequence: int, why: Literal["late", "too_large"]) -> None:
        reasons = {"late": "it came after the terminal result", "too_large": "it is larger than 1 MiB"}
        self._record("result.rejected", {"sequence": sequence, "reason": why, "problem": reasons[why]})
        self._turn.source_seq = max(sequence, self._turn.source_seq)  # it took part in the window: its credit returns

    def called(self, call: RunCall) -> None:
        self._touch()
        if call.action == "host.info":
            info = HostInfo(host_version=self._ports.host_version, protocol=limits.PROTOCOL_VERSION)
            call.answer(info.to_wire())
        else:
            call.refuse(AgentAPIError(code="unauthorized", message=f"{call.action[:64]} is not granted to this run"))

    def struck(self, strike: Strike) -> None:
        self._record("result.rejected", {"reason": strike.fault, "problem": strike.detail, "strike": strike.count})
        if strike.ends == "run":
            self._conclude("broken", f"the worker broke the protocol {strike.count} times, last: {strike.detail}")

    def ended(self, end: RunEnd) -> None:
        if end.how == "answered" and self._state.cancel is not None and self._state.terminal is None:
            self._ports.misbehaved(self)  # its grace is over and the runner still ignores its cancellation
        self._conclude(end.how, end.reason or "")

    # --- turns ---

    def _touch(self) -> _Turn:
        """Something arrived: be told when everything that came with it has."""
        if not self._awake:
            self._awake = True
            self._active_at = self._ports.clock.monotonic()
            if self._touched is not None:
                self._touched(self)
        return self._turn

    def _record(self, kind: str, data: JsonObject) -> None:
        if self._state.over:
            return
        self._touch()
        self._add(Judged(kind, encode_data(data), fact=data, observed=True), None)

    def _add(self, judged: Judged, source_seq: int | None) -> None:
        """A record that is not a delta, behind everything before it."""
        self._close_deltas()
        self._seq += 1
        record = NewRecord(
            workspace=self.facts.workspace,
            type=judged.type,
            data=judged.data,
            created_ms=self._ports.clock.now_ms(),
            observed=judged.observed,
            run_id=self.facts.run_id,
            seq=self._seq,
            epoch=self.epoch,
            source_seq=source_seq,
        )
        self._turn.records.append(record)
        self._turn.stream.append(stream_record(record))
        self._turn.size += len(judged.data)
        self._step(Fact(judged.type, judged.fact, self._seq))

    def _close_deltas(self) -> None:
        """Deltas that came together become one row and one step."""
        turn = self._turn
        if not turn.deltas:
            return
        deltas, turn.deltas = turn.deltas, []
        texts, turn.texts = turn.texts, []
        created_ms = self._ports.clock.now_ms()
        self._delta_rows += 1
        turn.rows.append(
            DeltaRow(
                run_id=self.facts.run_id,
                epoch=self.epoch,
                first_seq=deltas[0][0],
                last_seq=deltas[-1][0],
                created_ms=created_ms,
                spans=pack([(seq, len(payload)) for seq, payload in deltas]),
                body=b"".join(payload for _, payload in deltas),
            )
        )
        turn.stream.extend(delta_records(self.facts.run_id, self.epoch, created_ms, deltas))
        self._step(Fact("message.delta", {}, deltas[-1][0], _joined(texts)))

    def flush(self) -> None:
        """What arrived together is complete: show what may be shown, and write it unless a commit is under way."""
        self._awake = False
        self._close_deltas()
        self._show_live()
        if self._in_flight is None:
            self._write()
        elif _presses(self._turn):
            self._ports.journal.hurry()

    def _show_live(self) -> None:
        """Readers see deltas at once, unless something before them must be on disk first."""
        turn = self._turn
        if self._in_flight is not None and self._in_flight.shown < len(self._in_flight.stream):
            return
        start = turn.shown
        while turn.shown < len(turn.stream) and turn.stream[turn.shown].type in _LIVE_TYPES:
            turn.shown += 1
        if turn.shown > start:
            self._ports.hub.publish(self.facts.run_id, turn.stream[start : turn.shown])
            kill_point("run.after_publish")

    def _write(self) -> None:
        if not self._turn.empty:
            self._in_flight, self._turn = self._turn, _Turn()
            self._append()

    def _append(self) -> None:
        turn = self._in_flight
        if turn is None:
            return
        entry = Entry(
            records=turn.records,
            deltas=turn.rows,
            blobs=turn.blobs,
            fence=(self.facts.run_id, self.epoch),
            merge=self.facts.run_id if turn.last and self._delta_rows > 1 else None,
            size=turn.size,
            urgent=_presses(turn),
            told=self._told,
        )
        try:
            self._ports.journal.append(entry)
        except HostError as error:
            self._told(error)

    def _told(self, outcome: Outcome | HostError) -> None:
        turn = self._in_flight
        if turn is None:
            return
        if isinstance(outcome, HostError):
            self._not_written(outcome)
            return
        self._in_flight = None
        if not isinstance(outcome, Committed):
            self.fenced()  # another owner has the run: what this one knows is worth nothing
            return
        if turn.shown < len(turn.stream):
            self._ports.hub.publish(self.facts.run_id, turn.stream[turn.shown :])
        if turn.last:
            self._release()
            return
        if turn.source_seq and self._worker_run is not None and not self._worker_run.ended.done():
            self._worker_run.credit(turn.source_seq)
        self._show_live()
        self._write()

    def _not_written(self, error: HostError) -> None:
        """The store refused: the run is stopped, and what it knows is written as soon as the store takes it again."""
        if self._refused is None:
            self._refused = error
            if self._worker_run is not None and not self._worker_run.ended.done():
                self._worker_run.cancel("host.lost")
        self._loop.call_later(_RETRY_S, self._append)

    # --- effects ---

    def _step(self, fact: Fact) -> None:
        self._state, effects = step(self._state, fact)
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Watch():
                self._deadline = self._loop.call_later(self.facts.deadline_s, self.cancel, "runner.timeout")
            case StopWorker(reason):
                self._stop_worker(reason)
            case Ask():
                self._set_grace(_ANSWER_WAIT_S, "answered")
            case Release():
                self._stop_timers()
            case StartWorker():
                pass  # the dispatcher starts it, because only it knows a worker

    def _stop_worker(self, reason: str) -> None:
        if self._worker_run is None or self._worker_run.ended.done():
            self._conclude("answered", "")  # no worker has it: there is nobody to wait for
            return
        self._worker_run.cancel(reason)
        self._set_grace(limits.CANCEL_GRACE_S + _GRACE_MARGIN_S, "grace")

    def _set_grace(self, seconds: float, cause: EndCause) -> None:
        if self._grace is not None:
            self._grace.cancel()
        self._grace = self._loop.call_later(seconds, self._grace_over, cause)

    def _grace_over(self, cause: EndCause) -> None:
        if cause == "grace":
            self._ports.misbehaved(self)
        self._conclude(cause, "")

    def _stop_timers(self) -> None:
        for timer in (self._deadline, self._grace):
            if timer is not None:
                timer.cancel()

    def _conclude(self, cause: EndCause, detail: str) -> None:
        """Write the last records of the run, once."""
        if self._ending:
            return
        self._close_deltas()
        self._ending = True
        for message in assembled(self._state):
            self._record("message.completed", message)
        self._record("run.ended", ending_of(self._state, cause, detail).data())
        self._turn.last = True
        self.flush()

    def _release(self) -> None:
        self._stop_timers()
        if not self.done.done():
            self.done.set_result(None)
            self._ports.hub.end(self.facts.run_id)
            self._ports.released(self)


def _presses(turn: _Turn) -> bool:
    """Whether somebody waits for this turn: a reader for a record, or soon the worker for its credit."""
    return bool(turn.records) or len(turn.stream) >= _URGENT_RECORDS


def _joined(texts: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The increments of each message that came together, as one."""
    found: dict[str, list[str]] = {}
    for message_id, text in texts:
        found.setdefault(message_id, []).append(text)
    return tuple((message_id, "".join(parts)) for message_id, parts in found.items())

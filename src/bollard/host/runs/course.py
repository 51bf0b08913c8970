"""How one live run goes: steps the machine, carries out its effects, and brings the run to its end.

The machine decides (`machine`); here its effects become timers, a stop of the worker, and the last records. Whoever
owns the run does the writing.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from bollard.host.log.facts import RunFacts
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
from bollard.host.runs.requested_actions import RequestedAction, RequestedActions
from bollard.host.runs.timers import RunTimers
from bollard.protocol import JsonObject, limits
from bollard.wire import HostRun

__all__ = ["Course", "CoursePorts"]

_ANSWER_WAIT_S: Final = 1.0
"""Time between a terminal result and the answer to `run/start`; then the run ends, and its code is stopped."""
_GRACE_MARGIN_S: Final = 0.5


class CoursePorts(msgspec.Struct, frozen=True):
    """What a run's course asks of its owner."""

    act: Callable[[RequestedAction], None]
    """The runner asks for this action."""
    overdue: Callable[[], None]
    """Its time is over."""
    stopping: Callable[[], None]
    """It is being stopped: whatever it has under way should stop too."""
    misbehaved: Callable[[], None]
    """The runner ignored its cancellation."""
    overstays: Callable[[], None]
    """The runner has said its last word, goes on, and was told to stop."""
    closing: Callable[[], None]
    """Its last records come next: what is under way says now what became of it."""
    record: Callable[[str, JsonObject], None]
    closed: Callable[[], None]
    """Its last record is there."""


class Course:
    """One per live run."""

    def __init__(self, facts: RunFacts, state: RunState, ports: CoursePorts) -> None:
        self.state = state
        self.closing = False
        """Whether its last words are being said: nothing stops it any more."""
        self.ending = False
        """Whether its last record is written or being written."""
        self.outcome: Ending | None = None
        """How it ends, once that is decided."""
        self.worker: HostRun | None = None
        """Its part on a worker, once one has it."""
        self.timers = RunTimers(facts.deadline_s, facts.idle_s, overdue=ports.overdue)
        self.actions = RequestedActions(ports.act, self._acted)
        self._ports = ports
        self._held = False

    @property
    def working(self) -> HostRun | None:
        """Its part on a worker, unless that has ended."""
        return None if self.worker is None or self.worker.ended.done() else self.worker

    def step(self, fact: Fact) -> None:
        self.state, effects = step(self.state, fact)
        for effect in effects:
            self._carry_out(effect)

    def conclude(self, cause: EndCause, detail: str) -> None:
        """Write the last records of the run, once; one that went well waits for the actions that it asked for."""
        if self.ending:
            return
        if self.actions and cause == "answered" and self._went_well:
            self._held = True
            return
        record = self._ports.record
        self.closing = True
        self._ports.closing()
        self.ending = True
        for message in assembled(self.state):
            record("message.completed", message)
        self.outcome = ending = ending_of(self.state, cause, detail)
        for kind, data in settled(self.state, ending):
            record(kind, data)
        record("run.ended", ending.data())
        self._ports.closed()

    def forsake(self) -> None:
        """Another owner has the run: the worker stops, and nothing is written."""
        if (worker := self.working) is not None:
            worker.cancel("host.lost")
        self.ending, self.outcome = True, None

    def release(self) -> None:
        """It is over here."""
        self.actions.give_up()
        self.timers.stop()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Watch():
                self.timers.run()
            case Rest():
                self.timers.pause()
            case StopWorker(reason):
                self._stop_worker(reason)
            case Ask():
                self.timers.grace(_ANSWER_WAIT_S, self._answer_overdue)
            case Release():
                self.timers.stop()
            case StartWorker():
                pass  # the dispatcher starts it, because only it knows a worker

    def _stop_worker(self, reason: str) -> None:
        self._ports.stopping()
        self.actions.give_up()
        worker = self.working
        if worker is None:
            self.conclude("answered", "")  # no worker has it: there is nobody to wait for
            return
        worker.cancel(reason)
        self.timers.grace(limits.CANCEL_GRACE_S + _GRACE_MARGIN_S, self._grace_over)

    def _answer_overdue(self) -> None:
        """Its last result is there and its code goes on: the run ends without it, and the code is stopped."""
        if (worker := self.working) is not None:
            worker.cancel("runner.timeout")
            self._ports.overstays()
        self.conclude("answered", "")

    def _grace_over(self) -> None:
        self._ports.misbehaved()
        self.conclude("grace", "")

    @property
    def _went_well(self) -> bool:
        return self.state.terminal == "run.completed" and self.state.cancel is None

    def _acted(self) -> None:
        """The last action that the runner asked for has ended; what came of it is on its way to the log."""
        if self._held:
            self.conclude("answered", "")

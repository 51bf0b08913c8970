"""Writes what arrives for one run: one entry at a time, shown to readers as soon as it may be.

Deltas, and what else has no effect, are shown before their commit; everything else is on disk before anyone is told.
It knows the journal and the readers, and nothing of what a run is.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from bollard.host.errors import HostError
from bollard.host.log.entries import Committed, Judgement, Outcome
from bollard.host.log.journal import Journal, passes
from bollard.host.log.kill_points import kill_point
from bollard.host.runs.hub import Hub, StreamRecord
from bollard.host.runs.turn import Turn, into
from bollard.protocol import limits

__all__ = ["Hearing", "TurnWriter"]

_HOLD_S: Final = 0.02
"""Time that what nobody waits for may wait for what the worker sends next: a short run takes two commits, not three."""
_URGENT_RECORDS: Final = limits.WINDOW_RESULTS // 4
"""Deltas in one entry above which the worker will soon wait for its credit, so that the commit must not linger."""
_LIVE_TYPES: Final = frozenset({"message.delta", "run.started", "tool.call.started", "tool.call.completed"})
"""What readers may see before it is on disk: it has no effect and ends nothing."""
_RETRY_S: Final = 1.0
"""Time between two tries to write what the store refused."""


class Hearing(msgspec.Struct, frozen=True):
    """What the run is told of its turns."""

    landed: Callable[[Turn], None]
    """One is on disk, and readers have seen all of it."""
    fenced: Callable[[], None]
    """The run has another owner: nothing more will be on disk."""
    refused: Callable[[], None]
    """The store refused one for a reason that passes; it is tried again until it takes it."""
    impossible: Callable[[HostError], None]
    """The store refused one for good: nothing more will be on disk."""


class TurnWriter:
    """One per live run."""

    def __init__(self, run_id: str, epoch: int, journal: Journal, hub: Hub, hearing: Hearing) -> None:
        self._run_id = run_id
        self._epoch = epoch
        self._journal = journal
        self._hub = hub
        self._hearing = hearing
        self._loop = asyncio.get_running_loop()
        self._in_flight: Turn | None = None
        self._held: asyncio.TimerHandle | None = None
        self._delta_rows = 0
        self._tries = 0
        self.turn = Turn()
        """What arrived since the last entry."""

    def uncommitted(self) -> list[StreamRecord]:
        """What readers have seen that is not on disk yet."""
        shown: list[StreamRecord] = []
        for turn in (self._in_flight, self.turn):
            if turn is not None:
                shown.extend(turn.stream[: turn.shown])
        return shown

    def flush(self) -> None:
        """What arrived together is complete: write it unless a commit is under way, and show what may be shown."""
        before, turn = self._in_flight, self.turn
        self._write_soon()  # first: the disk takes longer than the readers
        self._show_live(before, turn)

    async def written(self, *, over: bool) -> bool:
        """Wait until everything so far is on disk. False when it never will be, or the run is over already."""
        turn = self.turn if not self.turn.empty else self._in_flight
        if turn is None:
            return not over
        landed: asyncio.Future[Judgement | None] = self._loop.create_future()
        turn.waiters.append((into(landed), None))
        turn.pressing = True
        self.flush()
        self._journal.hurry()
        return await landed is not None

    def forsake(self) -> None:
        """Nothing more is written: whoever waits is told."""
        self.close()
        for turn in (self._in_flight, self.turn):
            if turn is not None:
                turn.forsake()
        self._in_flight, self.turn = None, Turn()

    def close(self) -> None:
        if self._held is not None:
            self._held.cancel()
            self._held = None

    def _show_live(self, before: Turn | None, turn: Turn) -> None:
        """Readers see deltas at once, unless something before them must be on disk first."""
        if before is not None and before.shown < len(before.stream):
            return
        start = turn.shown
        while turn.shown < len(turn.stream) and turn.stream[turn.shown].type in _LIVE_TYPES:
            turn.shown += 1
        if turn.shown > start:
            self._hub.publish(self._run_id, turn.stream[start : turn.shown])
            kill_point("run.after_publish")

    def _write_soon(self) -> None:
        """Write what somebody waits for; what nobody waits for is held for a moment, for what comes next."""
        if self._in_flight is not None:
            if _presses(self.turn):
                self._journal.hurry()
        elif _presses(self.turn):
            self._write()
        elif self._held is None and not self.turn.empty:
            self._held = self._loop.call_later(_HOLD_S, self._write)

    def _write(self) -> None:
        self.close()
        if self._in_flight is None and not self.turn.empty:
            self._in_flight, self.turn = self.turn, Turn()
            self._delta_rows += len(self._in_flight.rows)
            self._append()

    def _append(self) -> None:
        turn = self._in_flight
        if turn is None:
            return
        entry = turn.entry(self._run_id, self._epoch, merge=turn.last and self._delta_rows > 1, urgent=_presses(turn))
        try:
            self._journal.append(entry, self._told)
        except HostError as error:
            self._told(error)

    def _told(self, outcome: Outcome | HostError) -> None:
        turn = self._in_flight
        if turn is None:
            return
        if isinstance(outcome, HostError):
            self._tries += 1
            if not passes(outcome, self._tries):
                self._hearing.impossible(outcome)
                return
            self._loop.call_later(_RETRY_S, self._append)
            self._hearing.refused()
            return
        if not isinstance(outcome, Committed):
            self._hearing.fenced()  # another owner has the run: what this one knows is worth nothing
            return
        self._in_flight, self._tries = None, 0
        turn.settle(outcome.judged)
        if turn.shown < len(turn.stream):
            self._hub.publish(self._run_id, turn.stream[turn.shown :])
        self._hearing.landed(turn)
        if not turn.last:
            self.flush()


def _presses(turn: Turn) -> bool:
    """Whether somebody waits for this turn: a reader for a record, or soon the worker for its credit."""
    return turn.pressing or len(turn.stream) >= _URGENT_RECORDS

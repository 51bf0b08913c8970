"""Messages that go into a run which is active already: given to it, pulled by its runner, or dispatched anew (§9).

The event is on disk before it is given to a run. The claim is a record of that run, written under its epoch while it
has not ended: claim and end are decided by the same commits, so a message is in a run or it is not.
"""

import asyncio
from functools import partial
from typing import Final

import msgspec

from bollard.host.log.entries import Judgement
from bollard.host.log.records import encode_data
from bollard.host.runs.context import as_given
from bollard.host.runs.event import NewEvent
from bollard.host.runs.live import LiveRun
from bollard.host.runs.turn import into
from bollard.protocol import JsonObject, limits

__all__ = ["Claims", "SteeringItem", "can_pull", "claim", "fits_a_run"]

_ENVELOPE_BYTES: Final = 4096
"""What stands around the messages of one answer, and around each message, at most."""


class SteeringItem(msgspec.Struct, frozen=True, kw_only=True):
    """One message that was given to a run."""

    event_id: str
    event: NewEvent
    claimed_ms: int

    def to_wire(self, run: LiveRun) -> JsonObject:
        """As the runner gets it: what a run of its own would have been told of it, and who claimed it."""
        facts = run.facts
        return {
            "claimed_run_id": facts.run_id,
            "runner_id": facts.runner_id,
            "claimed_at": self.claimed_ms / 1000,
            **as_given(self.event_id, self.event, facts.workspace),
            "metadata": {},
        }


class Claims:
    """The messages that live runs were given, with their contents. Which of them wait, each run's state knows."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, SteeringItem]] = {}

    def put(self, run_id: str, item: SteeringItem) -> None:
        self._items.setdefault(run_id, {})[item.event_id] = item

    def drop(self, run_id: str, event_id: str) -> None:
        items = self._items.get(run_id, {})
        items.pop(event_id, None)
        if not items:
            self._items.pop(run_id, None)

    def unread(self, run_id: str, live: LiveRun | None) -> int:
        """How many the runner has not pulled, with those that are on their way to it. A run that has not begun has
        pulled none."""
        items = self._items.get(run_id, {})
        if live is None:
            return len(items)
        return sum(1 for event_id in items if live.state.claims.get(event_id) != "injected")

    def waiting(self, run: LiveRun) -> list[SteeringItem]:
        """What the runner has not pulled, oldest first."""
        items = self._items.get(run.facts.run_id, {})
        queued = (event_id for event_id, claim in run.state.claims.items() if claim == "queued")
        return [items[event_id] for event_id in queued if event_id in items]

    def forget(self, run_id: str) -> dict[str, SteeringItem]:
        """The run is over: what it had been given."""
        return self._items.pop(run_id, {})

    async def pull(self, run: LiveRun, limit: int) -> list[SteeringItem]:
        """Give waiting messages to the runner: on disk as injected before it sees them. Nothing of a run that ends."""
        if run.state.terminal is not None:
            return []  # it has said its last word: nobody would answer them there
        items = _that_fit(self.waiting(run)[:limit], run)
        landed: asyncio.Future[Judgement | None] = asyncio.get_running_loop().create_future()
        last = len(items) - 1
        for index, item in enumerate(items):
            run.take_in(item.event.flow)
            told = into(landed) if index == last else None
            if not run.note("steering.injected", {"event_id": item.event_id}, told, pressing=index == last):
                return []
        back = partial(self.give_back, run, items)
        run.lending.add(back)
        try:
            if items and await landed is None:
                return []
        except asyncio.CancelledError:
            back()
            raise
        finally:
            run.lending.discard(back)
        return [item for item in items if run.state.claims.get(item.event_id) == "injected"]

    @staticmethod
    def give_back(run: LiveRun, items: list[SteeringItem]) -> None:
        """The runner has not got them: they wait again in their place, for the next pull or the run's end."""
        for item in items:
            if run.state.claims.get(item.event_id) == "injected":
                run.note("steering.queued", {"event_id": item.event_id})


def _that_fit(items: list[SteeringItem], run: LiveRun) -> list[SteeringItem]:
    """As many as one answer holds; the rest waits for the next pull."""
    fitting: list[SteeringItem] = []
    room = limits.CALL_BYTES - _ENVELOPE_BYTES
    for item in items:
        room -= len(encode_data(item.to_wire(run))) + 1
        if room < 0:
            break
        fitting.append(item)
    return fitting


def fits_a_run(event: NewEvent) -> bool:
    """Whether a message can be given to a run at all: one that no answer could hold needs a run of its own."""
    return len(event.record("", None)) <= limits.CALL_BYTES - _ENVELOPE_BYTES


def can_pull(run: LiveRun) -> bool:
    """Whether the runner may still read what came for its run: not once that was taken from it."""
    return not run.revoked.takes("steering.pull", "steering", None)


async def claim(run: LiveRun, event_id: str) -> tuple[int, int] | None:
    """Write into the run that the message is its own: epoch and number of that. `None` when the run ends, is stopped,
    or may not read it any more: then it is not."""
    if run.state.cancel is not None or run.state.terminal is not None or not can_pull(run):
        return None
    landed: asyncio.Future[Judgement | None] = asyncio.get_running_loop().create_future()
    if not run.note("steering.queued", {"event_id": event_id}, into(landed)):
        return None
    place = run.place  # now: by the time it is on disk, others have numbers that no reader knows yet
    return place if await landed is not None else None

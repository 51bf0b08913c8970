"""`steering.pull`: the messages that came for a run while it ran."""

from functools import partial

from bollard.host.intake.giving import Giving
from bollard.host.runs.api_call import Lent
from bollard.host.runs.live import LiveRun
from bollard.protocol import SteeringPull, SteeringPullResult, limits

__all__ = ["SteeringCalls"]


class SteeringCalls:
    """Gives what waits to the runner: leased to it until its run completes."""

    def __init__(self, giving: Giving) -> None:
        self._giving = giving

    async def pull(self, run: LiveRun, params: SteeringPull) -> SteeringPullResult | Lent:
        limit = 1 if params.mode == "one-at-a-time" else params.limit or limits.STEERING_QUEUE
        items = await self._giving.pull(run, limit)
        answer = SteeringPullResult.from_wire({"items": [item.to_wire(run) for item in items]})
        return Lent(answer, partial(self._giving.give_back, run, items)) if items else answer

    async def text(self, run: LiveRun) -> tuple[str, str] | None:
        """The oldest message that waits for the run: the id of its event, and its text. It counts as pulled."""
        items = await self._giving.pull(run, 1)
        return (items[0].event_id, items[0].event.text or "") if items else None

"""Runner code that goes on when its run is over here: its worker is told to stop it, and is replaced where it does not.

A run ends with its last result, a strike or another owner; its code may not hold a worker for longer than a cancelled
run may. Whoever calls this has sent `run/cancel`.
"""

import asyncio

from bollard.host.workers.boundary import RunSlot, WorkerPool
from bollard.protocol import limits
from bollard.wire import HostRun

__all__ = ["see_out"]


def see_out(run: HostRun, pool: WorkerPool, slot: RunSlot) -> None:
    """Drain the worker unless it answers `run/start` within the grace of a cancelled run."""
    loop = asyncio.get_running_loop()
    since = loop.time() if run.cancelled_at is None else run.cancelled_at
    over_at = since + limits.CANCEL_GRACE_S

    def drain() -> None:
        run.ended.remove_done_callback(ended)
        pool.drain(slot, run.run_id)

    def ended(_: object) -> None:
        timer.cancel()
        if loop.time() >= over_at:
            drain()  # when its own grace is over, a worker answers for code that still runs

    timer = loop.call_at(over_at, drain)
    run.ended.add_done_callback(ended)

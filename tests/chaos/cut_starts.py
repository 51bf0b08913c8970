"""Ends a loop repeatedly while it starts a worker, each time one turn later, and prints the fate of the worker.
Argument: the loop, `asyncio` or `uvloop`."""

import asyncio
import importlib
import os
import signal
import sys

import psutil
from tests.chaos.patience import PATIENCE_S

from bollard.wire import spawn_worker

TURNS = 12


async def main(turns, started):
    started.append(
        asyncio.create_task(spawn_worker(["/bin/sleep", "3600"], environment={}, output=lambda _name, _line: None))
    )
    for _ in range(turns):
        await asyncio.sleep(0)
    raise LookupError("a host that cannot start")


def outcome(turns):
    started = []
    try:
        with asyncio.Runner(loop_factory=importlib.import_module(sys.argv[1]).new_event_loop) as runner:
            runner.run(main(turns, started))
    except LookupError:
        pass
    if started[0].cancelled():
        return "cut"
    os.killpg(started[0].result().pid, signal.SIGKILL)
    return "started"


for number in range(TURNS):
    print(outcome(number), flush=True)
_, left = psutil.wait_procs(psutil.Process().children(), timeout=PATIENCE_S)
print(f"left {len(left)}")

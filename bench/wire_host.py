"""The smallest strict host: enough to drive and measure a worker. Commits at once, answers `host.info`."""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Literal

from bollard.protocol import (
    AgentEventContext,
    AgentInput,
    AgentRunContext,
    AgentRunRequest,
    AgentTrigger,
    DeliveryContext,
    HostInfo,
    LogRecord,
    runner_id,
)
from bollard.wire import (
    Delta,
    HostEnd,
    HostRun,
    RunCall,
    RunEnd,
    Strike,
    WorkerProcess,
    WorkerResult,
    spawn_worker,
    worker_environment,
)

__all__ = ["BenchHost", "CountingSink"]

PLUGIN = Path(__file__).parent / "runners.py"


class CountingSink:
    """Counts the results of a run and answers its calls."""

    def __init__(self) -> None:
        self.deltas = 0
        self.characters = 0
        self.first_result: asyncio.Event = asyncio.Event()
        self.faults: list[str] = []

    def delta(self, delta: Delta, size: int) -> None:
        del size
        self.deltas += 1
        self.characters += len(delta.text)
        if self.deltas == 1:
            self.first_result.set()

    def result(self, result: WorkerResult) -> None:
        del result

    def gap(self, first: int, last: int) -> None:
        self.faults.append(f"gap {first}-{last}")

    def refused(self, sequence: int, why: Literal["late", "too_large"]) -> None:
        self.faults.append(f"refused {sequence}: {why}")

    def called(self, call: RunCall) -> None:
        call.answer(HostInfo(host_version="bench", protocol=1).to_wire())

    def crowded(self, call: RunCall, times: int) -> None:
        self.faults.append(f"{times} calls too many: {call.action}")

    def struck(self, strike: Strike) -> None:
        self.faults.append(strike.detail)

    def ended(self, end: RunEnd) -> None:
        if end.how != "answered":
            self.faults.append(f"{end.how}: {end.reason}")


class BenchHost:
    """One worker process under measurement."""

    def __init__(self, worker: WorkerProcess) -> None:
        self.worker = worker
        self.end = HostEnd(worker.transport, self)
        self._live: set[HostRun] = set()
        self._count = 0

    @classmethod
    async def start(cls) -> "tuple[BenchHost, float]":
        """A ready worker, and the seconds since before its process was spawned."""
        started = time.perf_counter()
        worker = await spawn_worker(
            [sys.executable, "-m", "bollard.runtime", str(PLUGIN)],
            environment=worker_environment(os.environ),
            output=lambda stream, line: print(f"{stream}: {line}", file=sys.stderr),
        )
        host = cls(worker)
        await host.end.initialize("bench")
        catalogue = await host.end.list_runners()
        ready_s = time.perf_counter() - started
        if len(catalogue.runners) != 3:
            raise RuntimeError(f"the worker offers {catalogue}")
        return host, ready_s

    async def stop(self) -> None:
        await self.end.shutdown(0)
        await self.worker.stop()

    def run(self, name: str, sink: CountingSink, **config: int) -> HostRun:
        self._count += 1
        context = AgentRunContext(
            run_id=f"run_{self._count:016d}",
            trigger=AgentTrigger(type="message", source="api"),
            event=AgentEventContext(event_id="event_1", event_type="message.received", source="bench"),
            input=AgentInput(text="hello"),
            delivery=DeliveryContext(surface="api", supports_streaming=True),
            config=dict(config),
        )
        request = AgentRunRequest(runner_id=runner_id("local", "runners", name), runner_name=name, context=context)
        run = self.end.start_run(request, sink)
        self._live.add(run)
        run.ended.add_done_callback(lambda _: self._live.discard(run))
        return run

    # --- HostObserver ---

    def batch_ended(self) -> None:
        for run in self._live:
            run.credit(run.last_sequence)

    def logged(self, record: LogRecord) -> None:
        print(f"log: {record.message} {record.fields}", file=sys.stderr)

    def struck(self, strike: Strike) -> None:
        raise RuntimeError(f"the worker broke the protocol: {strike}")

    def closed(self, reason: str) -> None:
        del reason

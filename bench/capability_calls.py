"""The executor over a real journal process and SQLite, with live runs and a tool that does nothing."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from figures import Figure, median

from bollard.host.actions.call import Call
from bollard.host.actions.call_records import LiveLedger
from bollard.host.actions.executor import Executor
from bollard.host.actions.wrappers import BlobArtifacts
from bollard.host.agents.agent import Agent
from bollard.host.agents.policies import AccessPolicy, AgentPolicy, ResourceRule
from bollard.host.capabilities.capability import NO_FLOW, Capability
from bollard.host.capabilities.sources import Adapter, CallOrder, CallResult, Sources
from bollard.host.clock import SystemClock
from bollard.host.errors import HostError
from bollard.host.grants.offer import Offer
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.journal_writers import WriterProcess
from bollard.host.log.records import NewRecord
from bollard.host.reason import Why
from bollard.host.run_api.gate import RunApi
from bollard.host.runs.creation import RunMaker
from bollard.host.runs.event import NewEvent
from bollard.host.runs.hub import Hub
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.live_run import LiveRun, RunEnvironment
from bollard.host.scope import Scope
from bollard.host.store.blobs import BlobStore
from bollard.host.store.selection import choose_store
from bollard.trust.keys import load_or_make_signing_key

__all__ = ["CallBench", "calling", "measure_calls"]

NOTHING = Capability(
    id="tool:bench/nothing",
    name="nothing",
    kind="tool",
    description="Does nothing, and counts as if it did.",
    input_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False},
    risk="low",
    flow=NO_FLOW,
    source="builtin",
)
RUNS = 16


class Unowned:
    """A dispatcher that does nothing with its runs."""

    def released(self, run: LiveRun) -> None: ...

    def stopping(self, run: LiveRun) -> None: ...

    def misbehaved(self, run: LiveRun) -> None: ...

    def overstays(self, run: LiveRun) -> None: ...

    def unwritable(self, run: LiveRun, error: HostError) -> None: ...


class _Nothing:
    """The source of a tool that does nothing."""

    revision = 0

    @property
    def adapter(self) -> Adapter:
        return self

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        del workspace
        return [NOTHING]

    def absent(self, workspace: str) -> Mapping[str, Why]:
        del workspace
        return {}

    async def invoke(self, order: CallOrder) -> CallResult:
        return CallResult(content=({"type": "text", "text": order.capability.name},))


class CallBench:
    """Runs that only make calls."""

    def __init__(self, data: Path, journal: Journal) -> None:
        self.journal = journal
        self._clock = SystemClock()
        self._store = choose_store("", data, self._clock)
        self._store.open()
        sources = Sources([_Nothing()])
        offer = Offer.of(capabilities=[NOTHING])
        self._maker = RunMaker(self._clock, IdMaker(), lambda _: offer)
        blobs = BlobStore(data / "blobs")
        self._executor = Executor(
            adapters=sources, store=self._store, artifacts=BlobArtifacts(blobs), clock=self._clock
        )
        self._environment = RunEnvironment(journal=journal, hub=Hub(), clock=self._clock, api=RunApi(self._clock))

    async def begin(self, number: int) -> LiveRun:
        agent = Agent(
            agent_id="bench",
            runner_id="plugin:bench/bench/default",
            runner_name="default",
            plugin="bench/bench",
            label={"en_US": "Bench"},
            permissions=frozenset({"tools.detail", "tools.call"}),
            policy=AgentPolicy(
                access=AccessPolicy(
                    permissions={"tools": ("detail", "call")}, resources={"tools": ResourceRule(add=(NOTHING.id,))}
                )
            ),
        )
        event = NewEvent(
            source="bench",
            source_id=f"{number}.{time.time_ns()}",
            event_type="message.received",
            scope=Scope(workspace="default"),
            text="hi",
        )
        queued = self._maker.make(event, agent, "direct", epoch=1)
        await self.journal.commit(Entry(records=self._maker.first_records(queued)))
        return LiveRun(
            queued.facts,
            queued.grant,
            epoch=1,
            seq=2,
            environment=self._environment,
            owner=Unowned(),
            session=queued.session,
        )

    async def call(self, run: LiveRun, number: int) -> None:
        outcome = await self._executor.execute(
            run.session, Call(name="nothing", arguments={"n": number}), LiveLedger(run)
        )
        if outcome.status != "completed":
            raise RuntimeError(f"a call was {outcome.status}: {outcome.message}")

    async def flush(self) -> None:
        """The time to commit one record."""
        record = NewRecord(workspace="default", type="bench.flush", data=b"{}", created_ms=self._clock.now_ms())
        await self.journal.commit(Entry(records=[record]))

    async def end(self, run: LiveRun) -> None:
        run.give_up("answered")
        await run.done

    def close(self) -> None:
        self._store.close()


@asynccontextmanager
async def calling(data: Path) -> AsyncGenerator[CallBench]:
    key = load_or_make_signing_key(data / "keys" / "heads.ed25519")
    opened = choose_store("", data, SystemClock())
    opened.open()
    opened.close()
    desk = WriterProcess(database="", data=data, incarnation="bench", key=key, lost=_lost)
    journal = Journal(desk)
    await journal.start()
    bench = CallBench(data, journal)
    try:
        yield bench
    finally:
        await journal.close()
        bench.close()


def _lost() -> None:
    raise RuntimeError("the journal process is gone")


async def measure_calls(bench: CallBench, *, passes: int, calls: int) -> list[Figure]:
    """Overhead relative to a commit of the same minute, then calls per second: in one run, and in many."""
    run = await bench.begin(0)
    await bench.call(run, 0)  # load everything that is loaded once
    flushes: list[float] = []
    taken: list[float] = []
    rates: list[float] = []
    for _ in range(passes):
        for number in range(calls // passes):
            started = time.perf_counter()
            await bench.flush()
            between = time.perf_counter()
            await bench.call(run, number)
            flushes.append(between - started)
            taken.append(time.perf_counter() - between)
        started = time.perf_counter()
        for number in range(calls // passes):
            await bench.call(run, number)
        rates.append(calls // passes / (time.perf_counter() - started))
    await bench.end(run)
    many = [await _many(bench, calls) for _ in range(passes)]
    return [
        Figure(
            figure="executor overhead p50 (class A)",
            value=median(taken) * 1000,
            floor=median(flushes) * 1000,
            unit="ms",
            better="lower",
            must=3.0,
            aim=2.0,
        ),
        Figure(
            figure="class-A calls, one run", value=median(rates), unit="calls/s", better="higher", must=500, aim=1000
        ),
        Figure(
            figure=f"class-A calls, {RUNS} runs",
            value=median(many),
            unit="calls/s",
            better="higher",
            must=3000,
            aim=6000,
        ),
    ]


async def _many(bench: CallBench, calls: int) -> float:
    runs = [await bench.begin(number) for number in range(RUNS)]

    async def sequence(run: LiveRun) -> None:
        for number in range(calls // 4):
            await bench.call(run, number)

    started = time.perf_counter()
    await asyncio.gather(*map(sequence, runs))
    rate = RUNS * (calls // 4) / (time.perf_counter() - started)
    for run in runs:
        await bench.end(run)
    return rate

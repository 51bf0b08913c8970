"""Counts and spans of runs: each end once with its reason, queue time, time to the first text, and readers that fell
behind."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore

from bollard.host.core import RunTelemetry
from bollard.host.errors import Draining, StorageUnavailable
from bollard.host.limits import SUBSCRIBER_FRAMES
from bollard.host.log.entries import Committed, Entry
from bollard.host.log.journal import Journal, WriterNumbers
from bollard.host.runs.hub import Hub, StreamRecord
from bollard.host.runs.ids import IdMaker, made_ms
from bollard.host.runs.stream import RunReader
from bollard.host.telemetry.counts import RunCounts
from bollard.host.telemetry.tracer import Span, Tracer
from bollard.wire import WorkerRun

Stages = Callable[..., Awaitable[Any]]
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def parrot(worker: Any, run: WorkerRun) -> None:
    await run.emit("message.delta", {"chunk": {"role": "assistant", "content": "hello"}})
    await worker.complete(run)


async def test_a_run_is_counted_at_its_start_its_first_words_and_its_end(
    memory_store: MemoryStore, stages: Stages
) -> None:
    counts = RunCounts()
    stage = await stages(memory_store, parrot, telemetry=RunTelemetry(counts, Tracer(ManualClock())))
    for _ in range(2):
        await stage.ended(await stage.say())
    assert counts.begun == 2
    assert counts.ended == {("completed", ""): 2}
    assert counts.first_delta.count == 2


async def test_a_run_stopped_in_the_queue_is_counted_too(memory_store: MemoryStore, stages: Stages) -> None:
    counts = RunCounts()
    stage = await stages(memory_store, runs_at_once=1, telemetry=RunTelemetry(counts, Tracer(ManualClock())))
    first, second = await stage.say(), await stage.say()
    assert await stage.dispatcher.cancel(second, "cancelled")
    assert counts.ended == {("cancelled", "cancelled"): 1}
    assert counts.begun == 1
    assert first in stage.dispatcher.live


async def test_the_age_of_the_queue_is_that_of_its_oldest_run(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store, runs_at_once=1)
    await stage.say()
    assert stage.dispatcher.backlog.since_ms is None
    stage.clock.advance(3)
    began = stage.clock.now_ms()
    oldest = await stage.say()
    stage.clock.advance(3)
    await stage.say()
    assert stage.dispatcher.backlog.since_ms == began == made_ms(oldest)


def test_an_id_contains_its_creation_time() -> None:
    maker = IdMaker()
    assert made_ms(f"run_{maker.next(1_794_735_484_944)}") == 1_794_735_484_944


async def test_a_draining_host_refuses_events_and_accepts_them_after_the_drain(
    memory_store: MemoryStore, stages: Stages
) -> None:
    stage = await stages(memory_store, parrot, runs_at_once=1)
    stage.dispatcher.drain(on=True)
    with pytest.raises(Draining) as refused:
        await stage.say()
    assert refused.value.hint
    assert memory_store.records(0, 10) == []
    stage.dispatcher.drain(on=False)
    assert (await stage.read(await stage.say()))[-1].type == "run.ended"


async def test_a_run_has_a_span_with_its_calls_and_its_runner_gets_the_traceparent(
    memory_store: MemoryStore, stages: Stages, clock: ManualClock
) -> None:
    kept: list[Span] = []
    told: list[str] = []

    async def asks(worker: Any, run: WorkerRun) -> None:
        told.append(run.request["context"]["runtime"]["traceparent"])
        await run.call("state.list", {"scope": "conversation"})
        await worker.complete(run, message={"role": "assistant", "content": "done"})

    stage = await stages(memory_store, asks, telemetry=RunTelemetry(RunCounts(), Tracer(clock, kept.append)))
    run_id = await stage.say(traceparent=CALLER)
    await stage.ended(run_id)
    call, run = kept
    assert (call.name, run.name) == ("api state.list", "invoke_agent parrot")
    assert call.parent_id == run.context.span_id
    assert run.parent_id == CALLER[36:52]
    assert run.attributes["bollard.run.id"] == run_id
    assert run.error is None
    assert told == [run.context.traceparent]


async def test_a_cut_reader_is_counted_once() -> None:
    hub = Hub()
    slow, quick = hub.subscribe("r"), hub.subscribe("r")
    many = [StreamRecord(1, seq, "message.delta", b"{}") for seq in range(1, SUBSCRIBER_FRAMES + 10)]
    for first in range(0, len(many), 1000):
        hub.publish("r", many[first : first + 1000])
        await quick.take(0.01)
    hub.publish("r", many[:1])
    assert (slow.behind, quick.behind, hub.cut) == (True, False, 1)


async def test_a_reader_of_a_stopping_host_gets_its_records_and_a_closing_gap() -> None:
    hub = Hub()
    subscription = hub.subscribe("r")
    hub.publish("r", [StreamRecord(1, 1, "message.delta", b"{}")])
    hub.close()
    hub.publish("r", [StreamRecord(1, 2, "message.delta", b"{}")])
    seen = [record async for batch in RunReader.follow("r", subscription, 0) for record in batch]
    assert [(record.type, record.seq) for record in seen] == [("message.delta", 1), ("gap", 2)]
    assert b'"reason":"closing"' in seen[-1].json
    assert hub.readers == 0


async def test_a_journal_reports_each_successful_commit_only() -> None:
    told: list[tuple[int, float]] = []
    journal = Journal(_Desk(), lambda entries, seconds: told.append((entries, seconds)))  # type: ignore[arg-type]
    tell: Any = journal._report
    for _ in range(4):
        journal.append(Entry())
    tell([Committed(), Committed()], WriterNumbers(commits=1, last_commit_s=0.5))
    tell(
        [StorageUnavailable("no", reason="test", hint="none")], WriterNumbers(commits=1, failures=1, last_commit_s=0.5)
    )
    tell([], WriterNumbers(commits=2, failures=1, last_commit_s=0.1))  # a signed head is not an entry of a caller
    tell([Committed()], WriterNumbers(commits=3, failures=1, last_commit_s=0.25))
    assert told == [(2, 0.5), (1, 0.25)]


class _Desk:
    """Nothing is written here."""

    def put(self, entry: Entry) -> None: ...

    async def open(self, tell: Any) -> None:
        await asyncio.sleep(0)

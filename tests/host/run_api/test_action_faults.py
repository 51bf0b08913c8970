"""Calls under faults: the journal hangs, the host dies, a secret is about to be written."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_source import MemorySource
from tests.replacement import replace

from bollard.host.actions.call import Call
from bollard.host.actions.call_records import DetachedLedger, LiveLedger
from bollard.host.actions.executor import Executor
from bollard.host.actions.wrappers import BlobArtifacts
from bollard.host.agents.agent import AgentRegistry
from bollard.host.agents.policies import ResourceRule
from bollard.host.capabilities.capability import NO_FLOW, Capability
from bollard.host.capabilities.sources import CallOrder, CallResult, Sources
from bollard.host.errors import AuditUnavailable
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal, WriterListener, WriterNumbers
from bollard.host.log.journal_writers import WriterThread
from bollard.host.log.writer import Writer
from bollard.host.recovery import Recovery
from bollard.host.secrets.redactor import Redactor
from bollard.host.store.blobs import BlobStore
from bollard.host.store.store import Store
from bollard.trust.keys import SigningKey

WAIT_S = 30
WRITES = Capability(
    id="tool:memory/write",
    name="write",
    kind="tool",
    description="",
    input_schema={"type": "object"},
    risk="low",
    flow=NO_FLOW,
    source="builtin",
)
READS = replace(WRITES, id="tool:memory/read", name="read", effects="none")


class HangingDesk:
    """A journal whose disk does not answer until it is released."""

    def __init__(self, behind: WriterThread) -> None:
        self._behind = behind
        self.hangs = False
        self._held: list[Entry] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    async def open(self, tell: WriterListener) -> None:
        await self._behind.open(tell)

    def put(self, entry: Entry) -> None:
        if self.hangs:
            self._held.append(entry)
        else:
            self._behind.put(entry)

    def go_on(self) -> None:
        self.hangs = False
        for entry in self._held:
            self._behind.put(entry)
        self._held = []


@pytest.fixture
async def hanging(
    memory_store: Store, blob_store: BlobStore, clock: ManualClock, signing_key: SigningKey, memory_house: Any
) -> AsyncIterator[tuple[Any, HangingDesk]]:
    desk = HangingDesk(WriterThread(Writer(memory_store, blob_store, clock, incarnation="i2", key=signing_key)))
    journal = Journal(desk)
    await journal.start()
    house = type(memory_house)(memory_store, blob_store, clock, journal)
    yield house, desk
    desk.go_on()
    for run in house.runs:
        if not run.done.done():
            await house.end(run)
    await journal.close()


@pytest.fixture
def acting(make_agent: Any) -> Any:
    agent = make_agent()
    rules = {"tools": ResourceRule(add=(WRITES.id, READS.id))}
    access = replace(agent.policy.access, resources={**agent.policy.access.resources, **rules})
    return replace(agent, policy=replace(agent.policy, access=access))


async def test_a_call_that_is_not_recorded_in_time_is_not_made(hanging: Any, acting: Any) -> None:
    """F16: the journal hangs. A call with an effect is refused; the record of the refusal follows its start."""
    house, desk = hanging
    source = MemorySource([WRITES, READS])
    house.offer(Sources([source]))
    run = await house.begin(acting)
    assert await run.written()
    desk.hangs = True
    call = Call(name="write", arguments={}, call_id="c1")
    refused = await asyncio.wait_for(house.executor.execute(run.session, call, LiveLedger(run)), WAIT_S)
    assert (refused.status, refused.code) == ("rejected", "audit_unavailable")
    assert source.orders == [], "nothing was done"
    desk.go_on()
    assert await asyncio.wait_for(run.written(), WAIT_S)
    rows = house.store.records_of_run(run.facts.run_id, 0, 100)
    assert [row.type for row in rows if row.type.startswith("action.")] == ["action.started", "action.rejected"]
    assert house.store.tool_call(run.facts.run_id, "c1").status == "rejected"
    again = await house.executor.execute(run.session, call, LiveLedger(run))
    assert (again.code, source.orders) == ("audit_unavailable", [])


async def test_a_call_without_effects_does_not_wait_for_the_journal(hanging: Any, acting: Any) -> None:
    house, desk = hanging
    source = MemorySource([WRITES, READS])
    house.offer(Sources([source]))
    run = await house.begin(acting)
    assert await run.written()
    desk.hangs = True
    call = Call(name="read", arguments={}, call_id="c1")
    outcome = await asyncio.wait_for(house.executor.execute(run.session, call, LiveLedger(run)), WAIT_S)
    assert outcome.status == "completed"
    desk.go_on()
    assert await asyncio.wait_for(run.written(), WAIT_S)
    assert house.store.tool_call(run.facts.run_id, "c1").status == "completed"


async def test_a_call_of_a_crashed_host_is_unknown_after_the_next_start(house: Any, acting: Any) -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    async def wait(order: CallOrder) -> CallResult:
        begun.set()
        await never.wait()
        return CallResult()

    house.offer(Sources([MemorySource([WRITES, READS], wait)]))
    run = await house.begin(acting)
    asking = asyncio.create_task(house.ask(run, "tools.call", name="write", parameters={}, call_id="c1"))
    await asyncio.wait_for(begun.wait(), WAIT_S)
    row = house.store.run(run.facts.run_id)
    lost = Recovery(house.store, house.clock, AgentRegistry(), "another").lost_entry(row, "host.lost")
    (unknown,) = [record for record in lost.records if record.type == "action.unknown"]
    assert msgspec.json.decode(unknown.data)["call_id"] == "c1"
    assert [record.type for record in lost.records][-1] == "run.ended"
    never.set()
    await asyncio.wait_for(asking, WAIT_S)


async def test_a_call_outlives_its_run_in_a_separate_record_and_is_made_once(house: Any, acting: Any) -> None:
    source = MemorySource([WRITES, READS])
    house.offer(Sources([source]))
    run = await house.begin(acting)
    await house.end(run)
    session = run.session

    def ledger() -> DetachedLedger:
        return DetachedLedger(house.journal, house.clock, workspace="default", run_id=run.facts.run_id, flow=NO_FLOW)

    call = Call(name="write", arguments={"a": 1}, call_id="late")
    beside = ledger()
    first = await house.executor.execute(session, call, beside)
    await beside.written()
    house.executor.forget(run.facts.run_id)
    again = await house.executor.execute(session, call, ledger())
    assert first.status == again.status == "completed"
    assert len(source.orders) == 1, "the second time it is read from the store"
    recovery = Recovery(house.store, house.clock, AgentRegistry(), "another")
    assert await asyncio.to_thread(recovery.open_calls) == []
    started = {"call_id": "cut", "capability": WRITES.id, "name": "write", "arguments_sha256": "a" * 64}
    await ledger().write("action.started", started)
    (cut,) = await asyncio.to_thread(recovery.open_calls)
    await house.journal.commit(recovery.unknown_entry(cut))
    assert house.store.tool_call(run.facts.run_id, "cut").status == "unknown"
    assert await asyncio.to_thread(recovery.open_calls) == []


async def test_a_call_outside_its_run_is_refused_too_if_the_journal_hangs(hanging: Any) -> None:
    house, desk = hanging
    desk.hangs = True
    ledger = DetachedLedger(house.journal, house.clock, workspace="default", run_id="gone", flow=NO_FLOW)
    with pytest.raises(AuditUnavailable):
        await asyncio.wait_for(ledger.write("action.started", {"call_id": "c"}), WAIT_S)


async def test_no_record_and_no_answer_of_a_call_contains_a_secret(memory_house: Any, acting: Any) -> None:
    redactor = Redactor()
    redactor.add("default", "hunter2-the-secret")

    async def tell(order: CallOrder) -> CallResult:
        if order.arguments.get("fail"):
            raise AuditUnavailable("hunter2-the-secret did not work", reason="test", hint="x")
        return CallResult(
            content=({"type": "text", "text": "it is hunter2-the-secret"},),
            structured={"hunter2-the-secret": ["hunter2-the-secret"]},
        )

    sources = Sources([MemorySource([WRITES, READS], tell)])
    memory_house.offer(sources)
    executor = Executor(
        adapters=sources,
        store=memory_house.store,
        artifacts=BlobArtifacts(memory_house.blobs),
        clock=memory_house.clock,
        redactor=redactor,
    )
    run = await memory_house.begin(acting)
    for arguments in ({"a": "hunter2-the-secret"}, {"fail": "hunter2-the-secret"}):
        call = Call(name="write", arguments=arguments, explanation="because hunter2-the-secret")
        outcome = await executor.execute(run.session, call, LiveLedger(run))
        assert "hunter2" not in repr(outcome)
    assert await run.written()
    rows = memory_house.store.records_of_run(run.facts.run_id, 0, 100)
    assert sum(row.type == "action.started" for row in rows) == 2
    assert not [row for row in rows if b"hunter2" in (row.data or b"")]


async def test_a_call_on_a_full_disk_is_refused_with_storage_full(memory_house: Any, acting: Any) -> None:
    source = MemorySource([WRITES, READS])
    memory_house.offer(Sources([source]))
    run = await memory_house.begin(acting)
    memory_house.journal.numbers = WriterNumbers(full=True)
    refused = await memory_house.refusal(run, "tools.call", name="write", parameters={})
    assert refused.code == "storage_full"
    assert source.orders == []

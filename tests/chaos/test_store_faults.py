"""F12 to F15: the disk is full, locked, slow or unsure. Runs end, nothing acknowledged is lost, and it heals."""

import asyncio
import random
import sqlite3
import threading

import pytest
from tests.chaos.patience import PATIENCE_S
from tests.doubles.failing_store import FailurePlan, failing
from tests.new_events import new_event
from tests.simulation.history import History
from tests.simulation.ledger import chain_problems, run_problems
from tests.simulation.scripted_workers import ScriptedPool

from bollard.host.agents.agent import Agent, AgentRegistry
from bollard.host.agents.routing import AgentDirectory, BindingRegistry
from bollard.host.clock import SystemClock
from bollard.host.core import HostIdentity, Storage, build_core
from bollard.host.engine import LocalEngine
from bollard.host.errors import HostError, StorageFull, StorageUnavailable
from bollard.host.log.journal import Journal
from bollard.host.log.journal_writers import WriterThread
from bollard.host.log.writer import Writer
from bollard.host.runs.stream import RunReader
from bollard.host.store.sqlite import sqlite_store
from bollard.trust.keys import SigningKey

KEY = SigningKey(b"a key that only these tests use!")
AGENT = Agent(agent_id="scripted", runner_id="r", runner_name="default", plugin="scripted", label={"en_US": "S"})
FLOWING = {"deltas": 100_000, "pauses": 0.5, "states": 0, "message": False, "ending": "completes"}
SOME_TURNS = 20
"""Of the loop, during the seconds in which the store is tried again: one that waits itself has a few at most."""
SHORT = {"deltas": 5, "pauses": 0.0, "states": 1, "message": True, "ending": "completes"}


class NoBlobs:
    def put(self, content):
        return ""


class Rig:
    """A host without processes: the real journal and its thread, on a store that fails on demand."""

    def __init__(self, store):
        self.raw = store
        self.plan = FailurePlan()
        self.history = History()
        clock = SystemClock()
        self.store = failing(store, self.plan)
        self.journal = Journal(WriterThread(Writer(self.store, NoBlobs(), clock, incarnation="i1", key=KEY)))
        agents = AgentRegistry()
        agents.put(AGENT)
        pool = ScriptedPool(random.Random(1))
        pool.start(0)
        self.core = build_core(
            Storage(journal=self.journal, store=self.store, blobs=NoBlobs(), clock=clock),
            AgentDirectory(agents=agents, bindings=BindingRegistry()),
            pools={("default", "scripted"): pool},
            engine=LocalEngine(self.journal, self.store, clock, "i1"),
            identity=HostIdentity(version="test", cursor_secret=b"c" * 32),
        )
        self.reader = RunReader(store, self.core.hub, self.core.dispatcher.live)
        self.readers = []

    async def accept(self, name, plan):
        event = new_event(source="t", source_id=name, event_type="message.received", text="go", data=plan)
        accepted = await self.core.intake.accept(event, "scripted")
        self.history.acknowledged("t", name, accepted.run_id)
        view = self.history.view(accepted.run_id)
        self.readers.append(asyncio.create_task(self._read(view)))
        return view

    async def _read(self, view):
        async for batch in self.reader.read(view.run_id, None):
            for record in batch:
                view.see(record)

    async def until(self, condition):
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 -- another thread
                await asyncio.sleep(0.005)

    async def finish(self):
        """Every reader reaches its end; then the data on disk is judged."""
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*self.readers)
        await self.journal.close()
        problems = [*run_problems(self.raw), *chain_problems(self.raw, KEY.verify_key)]
        assert [*problems, *self.history.disagreements(self.raw)] == []


@pytest.fixture
async def rig(tmp_path):
    store = sqlite_store(tmp_path / "bollard.db")
    store.open()
    rig = Rig(store)
    await rig.journal.start()
    yield rig
    await rig.journal.close()
    store.close()


def _ended_as(view):
    return view.records[-1].json


@pytest.mark.smoke
async def test_a_full_store_ends_active_runs_refuses_new_ones_and_heals_by_itself(rig):
    full = threading.Event()

    def check(call):
        if call == "write.begin" and full.is_set():
            raise StorageFull("no space left", reason="test")

    rig.plan.on_call = check
    views = [await rig.accept(f"flow{number}", FLOWING) for number in range(5)]
    await rig.until(lambda: all(len(view.records) > 20 for view in views))
    full.set()
    await rig.until(lambda: all(live.state.terminal for live in rig.core.dispatcher.live.values()))
    with pytest.raises(StorageFull):
        await rig.accept("refused", SHORT)
    full.clear()
    await rig.until(lambda: all(view.ended for view in views))
    assert all(b"host.lost" in _ended_as(view) for view in views), "they were stopped for it, and say so"
    await rig.until(lambda: not rig.journal.full)
    after = await rig.accept("after", SHORT)
    await rig.until(lambda: after.ended)
    assert b'"completed"' in _ended_as(after)
    await rig.finish()


async def test_a_store_that_fails_every_fifth_time_delays_runs_and_duplicates_nothing(rig):
    begun = 0

    def check(call):
        nonlocal begun
        begun += call == "write.begin"
        if call == "write.begin" and begun % 5 == 0:
            raise StorageUnavailable("busy", reason="test")

    rig.plan.on_call = check
    views = [await rig.accept(f"e{number}", SHORT) for number in range(8)]
    await rig.until(lambda: all(view.ended for view in views))
    assert all(b'"completed"' in _ended_as(view) for view in views)
    assert rig.journal.numbers.retries > 0
    await rig.finish()


@pytest.mark.parametrize("commit", [1, 2, 3])
async def test_a_commit_with_an_unknown_outcome_is_looked_up_and_not_repeated(rig, commit):
    rig.plan.only, rig.plan.fail_at, rig.plan.after_commit = "write.commit", commit, True
    rig.plan.error = lambda call: StorageUnavailable("the connection died", reason="test", outcome="unknown")
    view = await rig.accept("e", SHORT)
    await rig.until(lambda: view.ended)
    assert b'"completed"' in _ended_as(view)
    await rig.finish()


async def test_slow_commits_stop_a_worker_at_its_window_and_then_let_it_continue(rig):
    go_on = threading.Event()
    go_on.set()
    rig.plan.on_call = lambda call: call != "write.commit" or go_on.wait(PATIENCE_S)
    view = await rig.accept("flood", {**FLOWING, "deltas": 3000, "pauses": 0.0})
    await rig.until(lambda: len(view.records) > 3)
    go_on.clear()
    committed = rig.raw.last_seq(view.run_id)
    seen = -1
    while seen != len(view.records):  # until nothing more comes
        seen = len(view.records)
        await asyncio.sleep(0.2)
    assert len(view.records) - committed <= 2 * 256 + 3, "no more than what was under way and one window"
    assert rig.journal.waiting <= 2
    go_on.set()
    await rig.until(lambda: view.ended)
    assert sum(record.type == "message.delta" for record in view.records) == 3000
    await rig.finish()


@pytest.mark.smoke
async def test_a_database_locked_by_another_program_is_waited_for_within_a_limit(tmp_path):
    store = sqlite_store(tmp_path / "bollard.db")
    store.open()
    rig = Rig(store)
    await rig.journal.start()
    before = await rig.accept("before", SHORT)
    await rig.until(lambda: before.ended)
    other = sqlite3.connect(tmp_path / "bollard.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    turns = asyncio.create_task(_turns())
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(HostError) as refused:
            await rig.accept("locked out", SHORT)
    assert refused.value.retryable
    assert store.run(before.run_id) is not None, "reading goes on"
    turns.cancel()
    other.execute("ROLLBACK")
    other.close()
    after = await rig.accept("after", SHORT)
    await rig.until(lambda: after.ended)
    await rig.finish()
    assert await turns > SOME_TURNS, "the loop was not held up meanwhile"
    store.close()


async def _turns():
    """How often the loop got round to this, until it is cancelled."""
    turns = 0
    try:
        while True:
            await asyncio.sleep(0.005)
            turns += 1
    except asyncio.CancelledError:
        return turns

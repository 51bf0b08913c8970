"""A host in virtual time that is killed, starved and restarted as a seed says, with clients that hold it to its word.

The store is the only thing that outlives a crash. Journal, dispatcher, runs, readers, recovery and the channel are the
product's own; time, threads, disk and workers are simulated. The same seed gives the same history.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Final, cast

from bollard.host.agents.agent import Agent, AgentBook
from bollard.host.agents.binding_book import BindingBook
from bollard.host.core import build_core
from bollard.host.engine.local import LocalEngine
from bollard.host.errors import HostError, StorageFull
from bollard.host.log.journal import Journal
from bollard.host.log.rebuild import rebuild
from bollard.host.log.writer import Writer
from bollard.host.runs.event import NewEvent
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.reading import parse_place
from bollard.host.simulator.history import History, View
from bollard.host.simulator.ledger import chain_problems, ledger_of, run_problems
from bollard.host.simulator.scripted_workers import ScriptedPool
from bollard.host.simulator.stepped_writer import SteppedWriter
from bollard.host.simulator.virtual_time import Standstill, VirtualClock, VirtualLoop
from bollard.host.store.blobs import BlobStore
from bollard.host.store.boundary import Store
from bollard.host.store.failing import FailurePlan, failing
from bollard.host.store.memory import MemoryStore
from bollard.host.workers.pool import PluginPool
from bollard.protocol import JsonObject
from bollard.trust import SigningKey

__all__ = ["Verdict", "simulate"]

_WORKSPACE: Final = "default"
_KEY: Final = SigningKey(b"simulated-key-of-the-simulation!")
_AGENT: Final = Agent(
    agent_id="scripted",
    runner_id="plugin:sim/scripted/default",
    runner_name="default",
    plugin="scripted",
    label={"en_US": "Scripted"},
    deadline_s=20.0,
    idle_s=8.0,
)
_INTERLEAVED: Final = 0.2
"""How often a commit falls between two reads, where one waits."""
_SETTLED_S: Final = 300.0
"""Time in which the last incarnation must bring every run and every reader to its end."""
_OWNED_S: Final = 5.0
"""Time after a restart in which every run has an owner or an end."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a history was, and what is wrong with it."""

    seed: int
    problems: tuple[str, ...]
    digest: str
    crashes: int
    runs: int
    gaps: int


class _SeededIds(IdMaker):
    """Ids that a seed decides."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

    def next(self, now_ms: int) -> str:
        return f"{now_ms:011x}{self._random.getrandbits(64):016x}"


class _NoBlobs:
    def put(self, content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()


class _World:
    """What outlives every incarnation: the store, and what clients were told."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 -- a seed, not a secret
        self.history = History(_WORKSPACE)
        self.store = MemoryStore()
        self.plan = FailurePlan(error=lambda call: StorageFull(f"full at {call}"))
        self.events: dict[str, JsonObject] = {}
        self.now = 0.0
        self.problems: list[str] = []

    def new_event(self) -> str:
        dice = self.random
        ending = dice.choice(["completes"] * 6 + ["fails", "dies", "hangs", "deaf", "mute"])
        self.events[f"e{len(self.events)}"] = {
            "deltas": dice.choice([0, 1, 5, 20]),
            "pauses": dice.choice([0.0, 0.2, 1.0]),
            "states": dice.choice([0, 0, 2]),
            "message": dice.random() < 0.7,
            "ending": ending,
        }
        return f"e{len(self.events) - 1}"


class _Incarnation:
    """One life of the host, from start to crash, and the clients that talk to it meanwhile."""

    def __init__(self, world: _World, number: int, loop: VirtualLoop) -> None:
        self._world = world
        self._loop = loop
        self.name = f"i{number}"
        self._clients: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """As `Host.start` does, with simulated parts where there would be a disk, threads and processes."""
        world, clock = self._world, VirtualClock(self._loop)
        store = failing(world.store, world.plan)
        writer = Writer(store, _NoBlobs(), clock, incarnation=self.name, key=_KEY)
        self._desk = SteppedWriter(writer, world.random)
        self.journal = Journal(self._desk)
        world.plan.on_call = self._interleave
        agents = AgentBook()
        agents.put(_AGENT)
        self._pool = ScriptedPool(world.random)
        self._pool.start()
        self.core = build_core(
            journal=self.journal,
            store=store,
            blobs=cast("BlobStore", _NoBlobs()),
            clock=clock,
            engine=LocalEngine(self.journal, store, clock, self.name),
            agents=agents,
            bindings=BindingBook(),
            pools={"scripted": cast("PluginPool", self._pool)},
            host_version="simulated",
            cursor_secret=b"simulated",
            runs_at_once=3,
            ids=_SeededIds(world.random),
        )
        self.dispatcher, self.reader = self.core.dispatcher, self.core.reader
        await self.journal.start()
        self._background = [self._loop.create_task(self.core.takeover.run()), self._loop.create_task(self._sweep())]

    def _interleave(self, call: str) -> None:
        """Readers read in threads: a commit may fall between any two of their calls."""
        if call.startswith("read.") and self._world.random.random() < _INTERLEAVED:
            self._desk.interleave()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.dispatcher.check_idle()

    # --- clients ---

    def client(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)

    async def settled(self) -> None:
        """Wait until every client has what it wanted."""
        while self._clients:
            await asyncio.wait(list(self._clients))

    async def busy(self) -> None:
        """A client that sends events, new and known ones, follows some and cancels some."""
        dice = self._world.random
        while True:
            await asyncio.sleep(dice.uniform(0, 0.4))
            known = list(self._world.events)
            again = bool(known) and dice.random() < 0.25
            event_id = dice.choice(known) if again else self._world.new_event()
            run_id = await self._deliver(event_id)
            if run_id is None:
                continue
            if dice.random() < 0.7:
                self.client(self.follow(self._world.history.view(run_id), dice.uniform(0.0, 3.0)))
            if dice.random() < 0.15:
                with contextlib.suppress(HostError):
                    await self.dispatcher.cancel(run_id, "cancelled")

    async def _deliver(self, event_id: str) -> str | None:
        kind = "message.received" if self._world.events[event_id]["message"] else "schedule.triggered"
        event = NewEvent(source="sim", source_id=event_id, event_type=kind, data=self._world.events[event_id])
        try:
            accepted = await self.core.intake.accept(event, _WORKSPACE, "scripted")
        except HostError:
            return None
        if accepted.run_id is not None:
            self._world.history.acknowledged("sim", event_id, accepted.run_id)
        return accepted.run_id

    async def deliver_again(self, event_id: str) -> None:
        while await self._deliver(event_id) is None:  # noqa: ASYNC110 -- a client that tries again
            await asyncio.sleep(0.5)

    async def follow(self, view: View, drops_after_s: float | None = None) -> None:
        """Read a run to its end, resuming whenever the connection drops."""
        while not view.ended:
            try:
                async with asyncio.timeout(drops_after_s):
                    await self._read(view)
            except TimeoutError:
                drops_after_s = None if self._world.random.random() < 0.5 else self._world.random.uniform(0.0, 3.0)
            except HostError:
                await asyncio.sleep(0.2)

    async def _read(self, view: View) -> None:
        place = parse_place(view.place) if view.place else None
        async with contextlib.aclosing(self.reader.read(view.run_id, place)) as batches:
            async for batch in batches:
                for record in batch:
                    view.see(record)

    async def disk_fills_up(self) -> None:
        """Now and then nothing can be written for a while."""
        dice, plan = self._world.random, self._world.plan
        while True:
            await asyncio.sleep(dice.uniform(1.0, 6.0))
            plan.only, plan.fail_at = "write.begin", len(plan.calls) + 1
            for _ in range(dice.randint(1, 6)):
                plan.fail_at = len(plan.calls) + 1
                await asyncio.sleep(0.3)
            plan.fail_at = None

    def crash(self) -> None:
        """The process is gone: nothing of it happens any more."""
        self._desk.crash()
        self._world.plan.fail_at = None


def _run(world: _World, number: int, *, last: bool) -> None:
    """One incarnation: a life of some seconds that ends in a crash, or in peace, when everything must settle."""
    life_s = world.random.uniform(0.1, 5.0)
    loop = VirtualLoop(world.now, world.random)
    asyncio.set_event_loop(loop)
    incarnation = _Incarnation(world, number, loop)

    async def live() -> None:
        await incarnation.start()
        for view in world.history.views:
            if not view.ended:
                incarnation.client(incarnation.follow(view))
        nemesis = [loop.create_task(incarnation.busy()) for _ in range(2)]
        nemesis.append(loop.create_task(incarnation.disk_fills_up()))
        await asyncio.sleep(life_s)
        if not last:
            return
        for task in nemesis:
            task.cancel()
        world.plan.fail_at = None
        await asyncio.sleep(_OWNED_S)
        for row in world.store.unfinished_runs("", 1000):
            if row.status != "queued" and row.owner != incarnation.name:
                world.problems.append(f"{row.run_id} is {row.status} and nobody owns it {_OWNED_S} s after the start")
        for event_id in world.events:
            incarnation.client(incarnation.deliver_again(event_id))
        for run_id in dict.fromkeys(world.history.accepted.values()):
            incarnation.client(incarnation.follow(world.history.view(run_id)))
        try:
            async with asyncio.timeout(_SETTLED_S):
                await incarnation.settled()
                await asyncio.sleep(40.0)  # runs that nobody follows end by their own limits
        except TimeoutError:
            world.problems.append(f"not everything came to its end within {_SETTLED_S} s")

    try:
        loop.run_until_complete(live())
    except Standstill as error:
        world.problems.append(f"standstill: {error}")
    incarnation.crash()
    world.now = loop.time()
    _bury(loop)


def _bury(loop: VirtualLoop) -> None:
    """Nothing of a crashed host may run on or complain."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    asyncio.set_event_loop(None)
    loop.close()


def _digest(world: _World, store: Store) -> str:
    """A history as a number: everything on disk and everything that clients saw."""
    found = hashlib.sha256()
    for (_, event_id), run_id in world.history.accepted.items():
        found.update(f"{event_id}={run_id}".encode())
        for record in ledger_of(store, run_id):
            found.update(record.json)
    for view in world.history.views:
        found.update(f"{view.run_id}:{view.gaps}:{len(view.records)}".encode())
    return found.hexdigest()


def simulate(seed: int, *, crashes: int = 2) -> Verdict:
    """The history of one seed: so many crashes, then a life in which everything must come to its end."""
    world = _World(seed)
    for number in range(crashes):
        _run(world, number, last=False)
    _run(world, crashes, last=True)
    problems = [*world.problems, *run_problems(world.store), *chain_problems(world.store, _KEY.verify_key)]
    problems += world.history.disagreements(world.store)
    digest = _digest(world, world.store)
    before = world.store.dump_projections()
    rebuild(world.store)
    after = world.store.dump_projections()
    problems += [f"a rebuild changes {table}" for table in before if before[table] != after[table]]
    gaps = sum(view.gaps for view in world.history.views)
    return Verdict(seed, tuple(problems), digest, crashes, len(world.history.accepted), gaps)

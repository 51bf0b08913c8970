"""One life of the simulated host, put together as the composition root does it, with simulated parts at its rim."""

import asyncio
from random import Random
from typing import Final, cast

from tests.doubles.failing_store import failing
from tests.simulation.scripted_workers import ScriptedPool
from tests.simulation.simulated_agents import PLUGIN, UNREAD, WORKSPACES, simulated_agents
from tests.simulation.virtual_time import SteppedWriter, Trap, VirtualClock, VirtualLoop
from tests.simulation.world import KEY, NoBlobs, World

from bollard.host.agents.agent import AgentRegistry
from bollard.host.agents.routing import AgentDirectory, BindingRegistry
from bollard.host.core import HostIdentity, Storage, build_core
from bollard.host.engine import LocalEngine
from bollard.host.log.journal import Journal
from bollard.host.log.writer import Writer
from bollard.host.runs.backlog import RunLimits
from bollard.host.runs.control import RunControl
from bollard.host.runs.external import ExternalRuns
from bollard.host.runs.ids import IdMaker
from bollard.host.store.blobs import BlobStore

_INTERLEAVED: Final = 0.2
"""How often a commit falls between two reads, where one waits."""
_RUNS_AT_ONCE: Final = 3


class _SeededIds(IdMaker):
    """Ids that a seed decides."""

    def __init__(self, dice: Random) -> None:
        super().__init__()
        self._dice = dice

    def _draw(self) -> int:
        return self._dice.getrandbits(64)


class Incarnation:
    """A host from its start to its crash."""

    def __init__(self, world: World, name: str, loop: VirtualLoop, dice: Random, trap: Trap | None) -> None:
        self.name = name
        self.dice = dice
        self.world = world
        self.clock = VirtualClock(loop)
        self.died = loop.create_future()
        """Done when the trap sprang."""
        store = failing(world.store, world.plan)
        self._store = store
        writer = Writer(store, NoBlobs(), self.clock, incarnation=name, key=KEY)
        self._desk = SteppedWriter(writer, dice, trap, lambda: self.died.set_result(None))
        self._loop = loop

    async def start(self) -> None:
        """As `Host.start` does."""
        world, clock, store = self.world, self.clock, self._store
        world.plan.on_call = self._interleave
        self.journal = Journal(self._desk)
        agents = AgentRegistry()
        pool = ScriptedPool(self.dice, world.witness)
        pool.start()
        self.core = build_core(
            Storage(journal=self.journal, store=store, blobs=cast("BlobStore", NoBlobs()), clock=clock),
            AgentDirectory(agents=agents, bindings=BindingRegistry(), starting=lambda: True),
            pools={(workspace, PLUGIN): pool for workspace in WORKSPACES},
            engine=LocalEngine(self.journal, store, clock, self.name),
            identity=HostIdentity(version="simulated", cursor_secret=b"simulated"),
            limits=RunLimits(runs_at_once=_RUNS_AT_ONCE, unread=UNREAD),
            ids=_SeededIds(self.dice),
        )
        self.control = RunControl(store, self.core.dispatcher.live)
        self.external = ExternalRuns(b"simulated", clock, self.core.dispatcher.live)
        await self.journal.start()
        self.background = [
            self._loop.create_task(self.core.startup_recovery.run()),
            self._loop.create_task(self._sweep()),
        ]
        self.background.append(self._loop.create_task(self._discover(agents)))

    async def _discover(self, agents: AgentRegistry) -> None:
        """Agents are known when their worker has introduced itself; the first events may come before."""
        await asyncio.sleep(self.dice.choice([0.0, 0.05, 0.4]))
        for workspace in WORKSPACES:
            for agent in simulated_agents(workspace):
                agents.put(agent)

    def _interleave(self, call: str) -> None:
        """Readers read in threads: a commit may fall between any two of their calls."""
        if call.startswith("read.") and self.dice.random() < _INTERLEAVED:
            self._desk.interleave()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.core.dispatcher.check_idle()

    def crash(self) -> None:
        """The process is gone: nothing of it happens any more."""
        self._desk.crash()
        self.world.plan.fail_at = None

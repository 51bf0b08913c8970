"""The heart of a host, put together: from an event to a run to its end. The composition root gives it its rim; tests
and the simulator give it another."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bollard.host.agents.agent import AgentBook
from bollard.host.agents.binding_book import BindingBook
from bollard.host.agents.gates import FrontGates
from bollard.host.clock import Clock
from bollard.host.engine.boundary import Engine
from bollard.host.grants.offer import Offer, OfferedAgent
from bollard.host.intake.child_calls import ChildCalls
from bollard.host.intake.intake import Intake
from bollard.host.intake.steering import Claims
from bollard.host.intake.steering_calls import SteeringCalls
from bollard.host.limits import QUEUED_RUNS, RUNS_AT_ONCE
from bollard.host.log.journal import Journal
from bollard.host.recovery import Recovery
from bollard.host.runapi.gate import Handler, RunApi
from bollard.host.runapi.handlers import handlers
from bollard.host.runs.creation import RunMaker
from bollard.host.runs.dispatcher import Dispatcher
from bollard.host.runs.hub import Hub
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.opening import Opening
from bollard.host.runs.reading import RunReader
from bollard.host.store.blobs import BlobStore
from bollard.host.store.boundary import Store
from bollard.host.takeover import Takeover
from bollard.host.workers.pool import PluginPool

__all__ = ["Core", "build_core"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """What the rim talks to."""

    hub: Hub
    maker: RunMaker
    dispatcher: Dispatcher
    intake: Intake
    gates: FrontGates
    reader: RunReader
    recovery: Recovery
    takeover: Takeover

    async def close(self, grace_s: float) -> None:
        """Take nothing new, let runs end, stop the rest."""
        await self.dispatcher.close(grace_s)
        await self.intake.close()


def build_core(
    *,
    journal: Journal,
    store: Store,
    blobs: BlobStore,
    clock: Clock,
    engine: Engine,
    agents: AgentBook,
    bindings: BindingBook,
    pools: Mapping[str, PluginPool],
    host_version: str,
    cursor_secret: bytes,
    runs_at_once: int = RUNS_AT_ONCE,
    queued_runs: int = QUEUED_RUNS,
    starting: Callable[[], bool] = lambda: False,
    ids: IdMaker | None = None,
) -> Core:
    """Everything between an event and the log, over these parts."""
    hub, gates, claims = Hub(), FrontGates(), Claims()
    maker = RunMaker(clock, ids or IdMaker(), _Offers(agents).of)
    answers: dict[str, Handler] = {}  # filled below: what answers a run may start other runs
    dispatcher = Dispatcher(
        journal=journal,
        hub=hub,
        clock=clock,
        pools=pools,
        engine=engine,
        opening=Opening(store, clock, host_version),
        api=RunApi(answers, clock),
        runs_at_once=runs_at_once,
    )
    intake = Intake(
        journal=journal,
        hub=hub,
        clock=clock,
        agents=agents,
        bindings=bindings,
        maker=maker,
        dispatcher=dispatcher,
        claims=claims,
        gates=gates,
        starting=starting,
        queued_runs=queued_runs,
    )
    answers |= handlers(
        store=store,
        blobs=blobs,
        clock=clock,
        cursor_secret=cursor_secret,
        host_version=host_version,
        steering_pull=SteeringCalls(intake.giving).pull,
        agents_call=ChildCalls(intake, dispatcher, agents, store).call,
    )
    recovery = Recovery(store, clock, agents, engine.incarnation)
    takeover = Takeover(
        recovery, journal=journal, hub=hub, agents=agents, intake=intake, incarnation=engine.incarnation
    )
    return Core(
        hub=hub,
        maker=maker,
        dispatcher=dispatcher,
        intake=intake,
        gates=gates,
        reader=RunReader(store, hub, dispatcher.live, takeover.lost_are_ended),
        recovery=recovery,
        takeover=takeover,
    )


class _Offers:
    """What each workspace offers. Agents, for now; made anew only when they change."""

    def __init__(self, agents: AgentBook) -> None:
        self._agents = agents
        self._made: dict[str, tuple[int, Offer]] = {}

    def of(self, workspace: str) -> Offer:
        made = self._made.get(workspace)
        if made is None or made[0] != self._agents.changes:
            things = [
                OfferedAgent(agent_id=agent.agent_id, name=agent.label.get("en_US"))
                for agent in self._agents.all()
                if agent.workspace == workspace
            ]
            made = self._made[workspace] = (self._agents.changes, Offer.of(*things))
        return made[1]

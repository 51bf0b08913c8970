"""Whose an event is: the agent that it names, or the one that a binding gives it to; and what its sender is told where
nobody gets it, for now or for good."""

from collections.abc import Callable

import msgspec

from bollard.host.agents.agent import Agent, AgentBook
from bollard.host.agents.binding_book import BindingBook
from bollard.host.errors import HostError, NotFound, WorkerUnavailable
from bollard.host.intake.accepted import Accepted, NotTaken
from bollard.host.intake.known import KnownEvents
from bollard.host.limits import WORKER_START_S
from bollard.host.runs.event import NewEvent

__all__ = ["AgentFinding", "Nowhere"]


class Nowhere(msgspec.Struct, frozen=True):
    """Nobody gets the event: why, for programs, and what its sender is told."""

    code: str
    error: NotFound


class AgentFinding:
    """One per host."""

    def __init__(
        self, agents: AgentBook, bindings: BindingBook, known: KnownEvents, starting: Callable[[], bool]
    ) -> None:
        """`starting` says whether plugins are on their way, whose agents nobody knows yet."""
        self._agents = agents
        self._bindings = bindings
        self._known = known
        self._starting = starting

    async def find(self, event: NewEvent, workspace: str, agent_id: str | None) -> tuple[Agent, str] | Nowhere:
        """The agent, and the id of the binding."""
        if agent_id is None:
            binding = self._bindings.table(workspace).find(event)
            if binding is None:
                hint = "`bollard resolve` says why, binding by binding"
                return Nowhere("no_binding", NotFound("no binding takes this event", hint=hint))
            binding_id, wanted = binding.binding_id, binding.agent_id
        else:
            binding_id, wanted = f"direct:{agent_id}", agent_id
        agent = self._agents.get(wanted, workspace)
        if agent is None:
            agent = await self._agents.wait_for(wanted, WORKER_START_S, workspace=workspace, hopeful=self._starting)
        if agent is None:
            name = wanted[:64]
            error = NotFound(f"there is no agent {name!r}", hint="`bollard agents` lists them", agent=name)
            return Nowhere("no_agent", error)
        return agent, binding_id

    async def turn_away(self, event: NewEvent, workspace: str, error: HostError, code: str, *, keep: bool) -> Accepted:
        """An event that gets no run now. Whatever became of it before has not changed.

        With `keep` it will not get one later either, and is kept with the reason; otherwise raises `error`.
        """
        if keep and code == "no_agent":
            name = str(error.details.get("agent"))
            if self.expected(workspace, name):
                keep, hint = False, "start its plugin, and send the event again"
                error = WorkerUnavailable(f"the runner of agent {name!r} is not there", hint=hint, agent=name)
        if keep:
            reason = NotTaken(code=code, message=error.message, hint=error.hint)
            return await self._known.drop(event, workspace, reason)
        if (known := await self._known.find(event, workspace)) is not None:
            return known
        raise error

    def expected(self, workspace: str, agent_id: str) -> bool:
        """Whether an agent that is not there may be there in a while."""
        return self._starting() or self._agents.saved_one(agent_id, workspace) is not None

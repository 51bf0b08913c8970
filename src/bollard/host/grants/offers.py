"""What each workspace offers now: its agents, and what its sources have. Made anew only when one of them changes."""

from bollard.host.agents.agent import AgentBook
from bollard.host.capabilities.registry import Sources
from bollard.host.grants.offer import Offer, OfferedAgent

__all__ = ["Offers"]


class Offers:
    """One per host."""

    def __init__(self, agents: AgentBook, sources: Sources) -> None:
        self._agents = agents
        self._sources = sources
        self._made: dict[str, tuple[tuple[int, int], Offer]] = {}

    def of(self, workspace: str) -> Offer:
        made, now = self._made.get(workspace), (self._agents.changes, self._sources.revision)
        if made is None or made[0] != now:
            agents = [
                OfferedAgent(agent_id=agent.agent_id, name=agent.label.get("en_US"))
                for agent in self._agents.of(workspace)
            ]
            offer = Offer.of(
                *agents,
                capabilities=self._sources.capabilities(workspace),
                absent=self._sources.absent(workspace),
            )
            made = self._made[workspace] = (now, offer)
        return made[1]

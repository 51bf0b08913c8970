"""What each workspace offers now: its agents and files, and what its sources have. Made anew only when one of them
changes."""

from bollard.host.agents.agent import AgentBook
from bollard.host.capabilities.registry import Sources
from bollard.host.files.file_book import FileBook
from bollard.host.grants.offer import Offer, OfferedAgent, OfferedFile

__all__ = ["Offers"]


class Offers:
    """One per host."""

    def __init__(self, agents: AgentBook, sources: Sources, files: FileBook) -> None:
        self._agents = agents
        self._sources = sources
        self._files = files
        self._made: dict[str, tuple[tuple[int, int, int], Offer]] = {}

    def of(self, workspace: str) -> Offer:
        now = (self._agents.changes, self._sources.revision, self._files.revision)
        made = self._made.get(workspace)
        if made is None or made[0] != now:
            agents = [
                OfferedAgent(agent_id=agent.agent_id, name=agent.label.get("en_US"))
                for agent in self._agents.of(workspace)
            ]
            files = [
                OfferedFile(file_id=file.file_id, source="config", file_name=file.name, mime_type=file.mime_type)
                for file in self._files.all(workspace)
            ]
            offer = Offer.of(
                *agents,
                *files,
                capabilities=self._sources.capabilities(workspace),
                absent=self._sources.absent(workspace),
            )
            made = self._made[workspace] = (now, offer)
        return made[1]

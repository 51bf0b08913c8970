"""What waited before a restart comes first: no new message of a conversation is decided on before its agent's runs and
messages of an earlier incarnation have taken their places again."""

import asyncio
from collections.abc import Iterable

from bollard.host.errors import Overloaded
from bollard.host.limits import WORKER_START_S

__all__ = ["Returning"]


class Returning:
    """Open, unless somebody says that something returns."""

    def __init__(self) -> None:
        self._unknown: asyncio.Event | None = None
        self._agents: dict[tuple[str, str], asyncio.Event] = {}

    def begin(self) -> None:
        """It is not known yet whose runs return."""
        if self._unknown is None:
            self._unknown = asyncio.Event()

    def known(self, agents: Iterable[tuple[str, str]]) -> None:
        """Only those of these workspaces and agents do."""
        self._agents = {agent: asyncio.Event() for agent in agents}
        if self._unknown is not None:
            self._unknown.set()

    def done(self, workspace: str, agent_id: str) -> None:
        """Everything of this agent has its place."""
        returned = self._agents.pop((workspace, agent_id), None)
        if returned is not None:
            returned.set()

    async def wait(self, workspace: str, agent_id: str) -> None:
        """Until nothing of this agent comes back any more. Raises `Overloaded` when that takes too long."""
        if (self._unknown is None or self._unknown.is_set()) and (workspace, agent_id) not in self._agents:
            return
        try:
            async with asyncio.timeout(WORKER_START_S):
                if self._unknown is not None:
                    await self._unknown.wait()
                if (returned := self._agents.get((workspace, agent_id))) is not None:
                    await returned.wait()
        except TimeoutError:
            message = "what waited before the restart has not taken its place yet"
            raise Overloaded(message, hint="try again in a moment") from None

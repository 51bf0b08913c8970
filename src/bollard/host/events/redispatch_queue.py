"""Messages on disk that need a run of their own and could not get one at once: a run gave them back, or the store was
busy. Each conversation's are dispatched one after the other, in the order they came, and nobody overtakes them.

Their agent may be gone by then. A saved one whose runner is not there is waited for as long as it takes; one that
nobody has any more for `AGENT_GONE_S`. Then its messages are dropped, and the log says so.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import structlog

from bollard.host.agents.agent import Agent, AgentRegistry
from bollard.host.agents.lanes import LaneKey
from bollard.host.background import Background
from bollard.host.errors import HostError, Overloaded
from bollard.host.limits import AGENT_GONE_S, WORKER_START_S
from bollard.host.runs.event import NewEvent

_log = structlog.get_logger("bollard.intake")
_RETRY_S: Final = 1.0
"""Time between two tries to dispatch a message that the store refused."""


@dataclass(slots=True)
class _Lane:
    """What waits in one conversation, the oldest first."""

    items: deque[tuple[str, NewEvent]] = field(default_factory=deque[tuple[str, NewEvent]])
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    placed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when they have their runs, or are known to wait for an agent."""


class RedispatchQueue:
    """One per host."""

    def __init__(
        self,
        *,
        agents: AgentRegistry,
        dispatch: Callable[[NewEvent, str, Agent], Awaitable[object]],
        drop: Callable[[str, str, str], Awaitable[object]],
        expected: Callable[[str, str], bool],
        stopped: Callable[[], bool],
    ) -> None:
        """`drop` is told workspace, event and agent; `expected` says of an agent that is not there whether it may be
        there in a while; `stopped` whether nothing is begun any more."""
        self._agents = agents
        self._dispatch = dispatch
        self._drop = drop
        self._expected = expected
        self._stopped = stopped
        self._lanes: dict[LaneKey, _Lane] = {}
        self._background = Background()
        self.patience_s = AGENT_GONE_S
        """Time for which an agent that nobody expects is waited for."""

    def add(self, lane: LaneKey, event_id: str, event: NewEvent) -> None:
        """This message gets its run as soon as it can, behind those of its conversation that wait already."""
        if (waiting := self._lanes.get(lane)) is not None:
            waiting.items.append((event_id, event))
            return
        self._lanes[lane] = _Lane(deque([(event_id, event)]))
        self._background.begin(self._work_off(lane))

    async def settled(self, lane: LaneKey) -> None:
        """Until none of the conversation waits any more. Raises `Overloaded` when that takes too long."""
        try:
            async with asyncio.timeout(WORKER_START_S):
                while (waiting := self._lanes.get(lane)) is not None:
                    await waiting.settled.wait()
        except TimeoutError:
            message = "earlier messages of this conversation have not got their runs yet"
            raise Overloaded(message, hint="try again in a moment") from None

    async def placed(self, lane: LaneKey) -> None:
        """Until each of the conversation has its place there, or waits for an agent that is gone."""
        if (waiting := self._lanes.get(lane)) is not None:
            await waiting.placed.wait()

    async def _work_off(self, lane: LaneKey) -> None:
        """The first stays first until it has its run: it is on disk, and not given up because the store is busy."""
        waiting = self._lanes[lane]
        try:
            while waiting.items and not self._stopped():
                event_id, event = waiting.items[0]
                try:
                    await self._settle(lane, event_id, event)
                except HostError as error:
                    _log.warning("a message could not be dispatched yet", event_id=event_id, problem=error.message)
                    await asyncio.sleep(_RETRY_S)
                else:
                    waiting.items.popleft()
        finally:
            del self._lanes[lane]
            waiting.placed.set()
            waiting.settled.set()

    async def _settle(self, lane: LaneKey, event_id: str, event: NewEvent) -> None:
        agent = self._agents.get(lane.agent_id, lane.workspace)
        if agent is None:
            _log.warning("a message waits for an agent that is gone", event_id=event_id, agent=lane.agent_id)
            self._lanes[lane].placed.set()
            agent = await self._back(lane.agent_id, lane.workspace)
        if agent is not None:
            await self._dispatch(event, event_id, agent)
        else:
            _log.warning("a message is dropped: its agent is gone", event_id=event_id, agent=lane.agent_id)
            await self._drop(lane.workspace, event_id, lane.agent_id)

    async def _back(self, agent_id: str, workspace: str) -> Agent | None:
        """The agent once it is there again; `None` when it was gone for too long and nobody expects it."""
        loop, gone_at = asyncio.get_running_loop(), None
        while (agent := self._agents.get(agent_id, workspace)) is None:
            left_s = None
            if self._expected(workspace, agent_id):
                gone_at = None
            else:
                gone_at = loop.time() if gone_at is None else gone_at
                left_s = gone_at + self.patience_s - loop.time()
                if left_s <= 0:
                    return None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._agents.changed()
        return agent

    async def close(self) -> None:
        await self._background.close()


# What waited before a restart comes first: no new message of a conversation is decided on before its agent's runs and
# messages of an earlier incarnation have taken their places again.


class ReturnGate:
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
